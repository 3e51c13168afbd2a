/**
 * A check of a database's health: its statements, and a status that fixed thresholds derive from their rows. Also
 * formats numbers.
 */
import type { OwnStatement, Rows } from '../../database/access.ts'

type Level = 'critical' | 'warning' | 'ok'

export type CheckResult = {
  readonly level: Level
  /** One line with the numbers and their thresholds. */
  readonly summary: string
  /** Findings, the worst first. */
  readonly findings: readonly string[]
}

export type Check = {
  readonly name: string
  readonly statements: readonly OwnStatement[]
  evaluate(results: readonly Rows[]): CheckResult
}

/** The maximum number of findings per statement. */
export const mostFindings = 20

const ranks: readonly Level[] = ['ok', 'warning', 'critical']

export function worst(levels: readonly Level[]): Level {
  return levels.reduce<Level>((most, level) => (ranks.indexOf(level) > ranks.indexOf(most) ? level : most), 'ok')
}

/** The status of a number for which higher is worse. */
export const levelAbove = (value: number, warning: number, critical: number): Level =>
  value >= critical ? 'critical' : value >= warning ? 'warning' : 'ok'

export const count = (value: number): string => value.toLocaleString('en-US')

export const percent = (part: number, total: number): string =>
  `${total === 0 ? 0 : Math.round((part / total) * 1_000) / 10} %`

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function size(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1_024 ** power
  return `${value >= 10 || power === 0 ? Math.round(value) : Math.round(value * 10) / 10} ${units[power]}`
}

export function duration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`
}

export const plural = (value: number, one: string, many: string): string =>
  `${count(value)} ${value === 1 ? one : many}`
