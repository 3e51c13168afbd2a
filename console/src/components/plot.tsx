/** A plot of metrics, with vertical lines for events, and with the values as text. */
import { useEffect, useRef, useState } from 'react'
import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { tick } from '../lib/format.ts'
import { amountOf, type PlotData } from '../lib/metrics.ts'
import { useTheme } from '../lib/theme.ts'
import { texts } from '../texts.ts'

const own = texts.metrics
const height = 180
const colours = 5
const syncKey = 'espalier'

const colourOf = (index: number): string => `--plot-${(index % colours) + 1}`

/** Returns the value of a CSS variable, because a canvas does not support variables. */
const computed = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

type Range = { plot: PlotData; from: number; to: number; events: readonly number[] }
type Props = Range & { note?: string | undefined }
type Options = Range & { width: number; onCursor: (index: number | undefined) => void }

function drawEvents(chart: UPlot, events: readonly number[]): void {
  const { ctx, bbox } = chart
  ctx.save()
  ctx.strokeStyle = computed('--text-quiet')
  ctx.setLineDash([4, 4])
  for (const at of events) {
    const x = Math.round(chart.valToPos(at / 1000, 'x', true))
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
  }
  ctx.restore()
}

function optionsOf({ plot, from, to, events, width, onCursor }: Options): UPlot.Options {
  const axis = {
    stroke: computed('--text-quiet'),
    grid: { stroke: computed('--line'), width: 1 },
    ticks: { show: false },
  }
  const isRatio = plot.unit === 'ratio'
  return {
    width,
    height,
    legend: { show: false },
    cursor: { sync: { key: syncKey }, points: { size: 6 } },
    scales: {
      x: { range: [from / 1000, to / 1000] },
      y: { range: (_, least, most) => [Math.min(0, least ?? 0), isRatio ? 1 : most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      { ...axis, values: (_, splits) => splits.map(at => tick(at * 1000)) },
      { ...axis, size: 76, values: (_, splits) => splits.map(value => amountOf(value, plot.unit)) },
    ],
    series: [
      {},
      ...plot.columns.map((label, index) => ({
        label,
        stroke: computed(colourOf(index)),
        width: 1.5,
        points: { show: plot.times.length < 3 },
      })),
    ],
    hooks: {
      draw: [chart => drawEvents(chart, events)],
      setCursor: [chart => onCursor(chart.cursor.idx ?? undefined)],
    },
  }
}

/** Returns the text of a series. Returns its name if the console has no text for it. */
const seriesText = (name: string): string => (Object.hasOwn(own.series, name) ? own.series[name] : undefined) ?? name

/** Returns the value at the cursor, which is null in a gap. Without a cursor, returns the last known value. */
const shownOf = (values: readonly (number | null)[], cursor: number | undefined): number | null =>
  (cursor === undefined ? values.findLast(value => value !== null) : values[cursor]) ?? null

export function Plot({ plot, from, to, events, note }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const [cursor, setCursor] = useState<number>()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const draw = () => {
      const options = optionsOf({
        plot,
        from,
        to,
        events,
        width: Math.max(120, element.clientWidth),
        onCursor: setCursor,
      })
      return new UPlot(options, [plot.times, ...plot.values], element)
    }
    let chart = draw()
    const resized = new ResizeObserver(() => chart.setSize({ width: Math.max(120, element.clientWidth), height }))
    resized.observe(element)
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const redraw = () => {
      chart.destroy()
      chart = draw()
    }
    dark.addEventListener('change', redraw)
    return () => {
      dark.removeEventListener('change', redraw)
      resized.disconnect()
      chart.destroy()
    }
  }, [plot, from, to, events, theme])
  const title = own.plot(seriesText(plot.series), plot.unit)
  return (
    <figure className="plot">
      <figcaption>
        <h2>{title}</h2>
        <ul className="row plot-legend">
          {plot.columns.map((column, index) => (
            <li key={column}>
              <span className="plot-mark" style={{ background: `var(${colourOf(index)})` }} aria-hidden="true" />
              {own.value(column.replaceAll('_', ' '), amountOf(shownOf(plot.values[index] ?? [], cursor), plot.unit))}
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={place} className="plot-place" aria-hidden="true" />
      {note !== undefined && <p className="quiet">{note}</p>}
    </figure>
  )
}
