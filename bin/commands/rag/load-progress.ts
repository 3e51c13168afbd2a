/** Shows the progress of a load: a bar on a terminal, otherwise an occasional line. */
import type { LoadFigures } from '../../../services/rag/load/load.ts'

type Screen = { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown }
type Figures = Readonly<LoadFigures>

const redrawMs = 100
const lineMs = 5_000
const barWidth = 20

const thousands = new Intl.NumberFormat('en-US')
const number = (value: number): string => thousands.format(value)

export function summary({ files, passages, embedded, unchanged, deleted, tokens }: Figures, seconds: number): string {
  const parts = [
    `${number(files)} files`,
    `${number(passages)} passages`,
    `${number(embedded)} embedded (about ${number(tokens)} tokens)`,
    `${number(unchanged)} unchanged`,
    `${number(deleted)} deleted`,
  ]
  return `loaded ${parts.join(', ')} in ${seconds.toFixed(1)} s`
}

/** Returns the bar, which shows the share of bytes that are loaded, and the counts. */
export function progressLine(figures: Figures, totals: { readonly files: number; readonly bytes: number }): string {
  const share = totals.bytes === 0 ? 1 : Math.min(1, figures.bytes / totals.bytes)
  const filled = Math.round(share * barWidth)
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}]`
  const percent = `${Math.floor(share * 100)}`.padStart(3)
  return `${bar} ${percent} %  ${number(figures.files)}/${number(totals.files)} files  ${number(figures.passages)} passages, ${number(figures.embedded)} embedded`
}

export class Progress {
  readonly #screen: Screen
  readonly #totals: { readonly files: number; readonly bytes: number }
  readonly #since = performance.now()
  #last = Number.NEGATIVE_INFINITY
  #isDrawn = false

  constructor(screen: Screen, files: readonly { readonly bytes: number }[]) {
    this.#screen = screen
    this.#totals = { files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) }
    this.#last = screen.isTTY ? Number.NEGATIVE_INFINITY : this.#since
  }

  get seconds(): number {
    return (performance.now() - this.#since) / 1_000
  }

  show(figures: Figures, step: 'files' | 'index'): void {
    const now = performance.now()
    const every = this.#screen.isTTY ? redrawMs : lineMs
    if (step === 'files' && now - this.#last < every) return
    this.#last = now
    const line = progressLine(figures, this.#totals)
    if (this.#screen.isTTY) {
      const shown = step === 'index' ? `${line}, building the index` : line
      this.#screen.write(`\r\x1b[K${shown.slice(0, (this.#screen.columns ?? 80) - 1)}`)
      this.#isDrawn = true
    } else
      this.#screen.write(`${step === 'index' ? 'all files are loaded; building the index if there is none' : line}\n`)
  }

  /** Clears the bar, so that other output can follow. */
  end(): void {
    if (this.#isDrawn) this.#screen.write('\r\x1b[K')
    this.#isDrawn = false
  }
}
