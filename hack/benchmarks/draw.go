package main

import (
	"bytes"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A panel is one chart of horizontal bars beside the others of its table.
type panel struct {
	title  string
	series []series
}

// A series is one bar for each row.
type series struct {
	name   string // empty where the panel has one series
	values []float64
}

var colors = []color.Color{
	color.RGBA{R: 0x35, G: 0x6b, B: 0xa5, A: 0xff}, color.RGBA{R: 0xe0, G: 0x8e, B: 0x2b, A: 0xff},
}

const (
	barWidth   = 9 * vg.Millimeter / 2
	panelWidth = 7 * vg.Centimeter
	letter     = 2 * vg.Millimeter // of the name of a row, about
	frame      = 3 * vg.Centimeter // of a chart, above and below its bars
)

// draw is the plot of a table.
func (r *results) draw() ([]byte, error) {
	names, panels := r.panels()
	height := frame + vg.Length(len(names))*9*vg.Millimeter + vg.Length(len(names))*vg.Millimeter*2
	nameWidth := vg.Length(0) // of the first panel, for the names of the rows
	for _, name := range names {
		nameWidth = max(nameWidth, letter*vg.Length(len(name)))
	}
	canvas := vgsvg.New(nameWidth+panelWidth*vg.Length(len(panels)), height)
	all := draw.New(canvas)
	left := all.Min.X
	for i, p := range panels {
		right := left + panelWidth
		if i == 0 {
			right += nameWidth
		}
		chart, err := p.chart(names, i == 0)
		if err != nil {
			return nil, err
		}
		part := all
		part.Min.X, part.Max.X = left, right
		chart.Draw(draw.Crop(part, 2*vg.Millimeter, -3*vg.Millimeter, 0, 0))
		left = right
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// chart draws one panel; named says whether rows are named in it.
func (p panel) chart(names []string, named bool) (*plot.Plot, error) {
	chart := plot.New()
	chart.Title.Text = p.title
	chart.X.Min = 0
	chart.Add(plotter.NewGrid())
	for i, s := range p.series {
		values := slices.Clone(s.values)
		slices.Reverse(values) // the first row on top
		bars, err := plotter.NewBarChart(plotter.Values(values), barWidth)
		if err != nil {
			return nil, err
		}
		bars.Horizontal = true
		bars.Color = colors[i%len(colors)]
		bars.LineStyle.Width = 0
		bars.Offset = barWidth * (vg.Length(len(p.series)-1)/2 - vg.Length(i))
		chart.Add(bars)
		if s.name != "" {
			chart.Legend.Add(s.name, bars)
			chart.Legend.Top = true
		}
	}
	labels := slices.Clone(names)
	slices.Reverse(labels)
	if !named {
		for i := range labels {
			labels[i] = ""
		}
	}
	chart.NominalY(labels...)
	chart.X.Max *= 1.3 // room for the legend
	chart.Y.Min, chart.Y.Max = -0.6, float64(len(labels))-0.4
	return chart, nil
}

// panels are what a table's plot shows, and the names of its rows.
func (r *results) panels() (names []string, panels []panel) {
	if len(r.Rows) == 0 {
		return r.ratios()
	}
	value := func(of func(row) float64) []float64 {
		var values []float64
		for _, row := range r.Rows {
			values = append(values, of(row))
		}
		return values
	}
	for _, row := range r.Rows {
		names = append(names, row.Name)
	}
	return names, []panel{
		{"delivered, %", []series{{"", value(func(r row) float64 { return r.Report.DeliveredPercent })}}},
		{"relay, CPU s per GB delivered", []series{{"", value(func(r row) float64 { return r.Report.Relay.CPUSecondsPerGB })}}},
		{"relay, KiB of RSS for each viewer", []series{{"", value(func(r row) float64 { return r.Report.Relay.BytesPerViewer / 1024 })}}},
		{"latency, ms", []series{
			{"p50", value(func(r row) float64 { return r.Report.Latency.P50Ms })},
			{"p99", value(func(r row) float64 { return r.Report.Latency.P99Ms })},
		}},
	}
}

// ratios show two sets of benchmarks: of reads the single ones and those of 32
// frames, and of bursts the long ones.
func (r *results) ratios() (names []string, panels []panel) {
	var ratios []float64
	for _, b := range r.Benchmarks {
		if slices.ContainsFunc([]string{"batch4/", "batch8/", "batch128/", "burst_1/"}, func(part string) bool { return strings.Contains(b.Name, part) }) {
			continue
		}
		names = append(names, b.Name)
		ratios = append(ratios, b.Ours/b.Theirs)
	}
	return names, []panel{{"time, ours / theirs", []series{{"", ratios}}}}
}
