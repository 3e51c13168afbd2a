/**
 * Shows the progress of an operation. On a terminal, it redraws one line, with the seconds since the start. Otherwise
 * it writes a line for each change.
 */
import { type Io, isTerminal } from './io.ts'

type Progress = { update(text: string): void; end(): void }

const eraseLine = '\r\u001b[K'
const defaultColumns = 80

/** Returns the text that redraws the line, cut to the width of the terminal. */
export function progressLine(text: string, seconds: number, columns: number): string {
  const suffix = ` (${seconds} s)`
  const space = Math.max(0, columns - suffix.length - 1)
  const characters = [...text]
  const shown = characters.length > space ? `${characters.slice(0, Math.max(0, space - 1)).join('')}…` : text
  return `${eraseLine}${shown}${suffix}`
}

/** The caller escapes the text of an update. */
export function createProgress({ errors }: Io, isSilent: boolean, now: () => number = Date.now): Progress {
  if (isSilent) return { update() {}, end() {} }
  let current: string | undefined
  if (!isTerminal(errors))
    return {
      update(text) {
        if (text !== current) errors.write(`${text}\n`)
        current = text
      },
      end() {},
    }
  const start = now()
  const draw = () => {
    if (current !== undefined)
      errors.write(progressLine(current, Math.round((now() - start) / 1000), errors.columns ?? defaultColumns))
  }
  const timer = setInterval(draw, 1000)
  timer.unref()
  return {
    update(text) {
      current = text
      draw()
    },
    end() {
      clearInterval(timer)
      if (current !== undefined) errors.write(eraseLine)
      current = undefined
    },
  }
}
