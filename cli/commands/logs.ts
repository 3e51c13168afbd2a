/** `espalier logs`: prints the log of Postgres or of a service, and with --follow also new lines. */
import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidArgumentError, Option } from 'commander'
import { escapeControls, printedJson } from '../../values/escape.ts'
import type { LogEntry } from '../api/shapes.ts'
import { act, branchOption, type ClientCommand, createCommand, databaseArgument, integer } from '../arguments.ts'
import { ApiFailure } from '../errors.ts'
import { inOptions } from '../fields.ts'
import { styleOf } from '../io.ts'
import { chosenPlace, type Session } from '../session.ts'

type Options = { branch?: string; service?: string; lines: number; since?: string; follow?: boolean }

/** The pause between two reads with --follow. It is short after new lines, and longer while the log is quiet. */
const [shortestPauseMs, firstPauseMs, longestPauseMs] = [1000, 2000, 5000]

/** Returns the next pause. `hasNew`: whether the last read returned new lines. Pure. */
export const nextPauseMs = (pauseMs: number, hasNew: boolean): number =>
  hasNew ? shortestPauseMs : Math.min(pauseMs * 1.25, longestPauseMs)

/** Whether a later read can succeed: the API restarts, is busy or cannot be reached. */
const isTemporary = (error: unknown): error is ApiFailure =>
  error instanceof ApiFailure && (error.status === undefined || error.status === 429 || error.status > 499)

const mostLines = 1000
const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses `--since`: a duration before now, or a time. @throws InvalidArgumentError */
export function sinceTime(text: string, now: number = Date.now()): string {
  const [, count = '', unit = ''] = /^([0-9]{1,6})([smhd])$/.exec(text) ?? []
  const isDate = /^\d{4}-\d\d-\d\d/.test(text)
  const time = unit === '' ? (isDate ? Date.parse(text) : Number.NaN) : now - Number(count) * (units[unit] ?? 0)
  if (Number.isNaN(time)) throw new InvalidArgumentError('It must be like 10m, 2h or 2026-01-31T12:00:00Z.')
  return new Date(time).toISOString()
}

/** Parses `--since` without the second argument that commander passes to a parser. */
export const since = (text: string): string => sinceTime(text)

const identityOf = ({ timestamp, pid, line_num: line, message }: LogEntry): string =>
  JSON.stringify([timestamp, pid, line, message])

/**
 * Returns the entries of a page that were not printed before, oldest first. Each page starts at the newest time of the
 * previous page, because more entries with that time can arrive later. Stores the page in `printed`, unless the
 * page is empty. Has no other side effect.
 */
export function newEntries(page: readonly LogEntry[], printed: Set<string>): LogEntry[] {
  const fresh = page.toReversed().filter(entry => !printed.has(identityOf(entry)))
  const newest = page.reduce((latest, { timestamp }) => (timestamp > latest ? timestamp : latest), '')
  if (newest === '') return fresh
  printed.clear()
  for (const entry of page) printed.add(identityOf(entry))
  return fresh
}

function printEntry({ io, printer }: Session, entry: LogEntry): void {
  // One JSON object per line, so that a program can process lines as they arrive.
  if (printer.format === 'json') {
    printer.line(printedJson(entry))
    return
  }
  if (printer.format === 'quiet') {
    printer.line(escapeControls(entry.message))
    return
  }
  const style = styleOf(io, io.output)
  const level = escapeControls(entry.level)
  const isBad = /^(ERROR|FATAL|PANIC)$/.test(level)
  const painted = isBad ? style('red', level) : level.startsWith('WARN') ? style('yellow', level) : level
  printer.line(`${style('dim', escapeControls(entry.timestamp))} ${painted} ${escapeControls(entry.message)}`)
  for (const [name, text] of [
    ['DETAIL', entry.detail],
    ['HINT', entry.hint],
    ['STATEMENT', entry.statement],
  ] as const)
    if (text !== undefined) printer.line(`  ${name}: ${escapeControls(text)}`)
}

const command: ClientCommand = run => {
  const parsed = branchOption(databaseArgument(createCommand(run, 'logs', 'The log of Postgres, oldest line first.')))
    .addOption(new Option('--service <type>', 'the log of a service').choices(['mcp', 'rest', 'rag']))
    .option('-n, --lines <count>', 'how many lines, counted from the newest', integer(1, mostLines), 100)
    .option('--since <time>', 'only lines since this time: 10m, 2h or 2026-01-31T12:00:00Z', since)
    .option('-f, --follow', 'prints new lines until Ctrl-C')
  const print = async (session: Session, name: string | undefined, options: Options) => {
    const { client, database, branch } = await chosenPlace(session, name, options.branch)
    const place = { id: database.id, branchId: branch?.id }
    const printed = new Set<string>()
    let start = options.since
    let most = options.lines
    let pauseMs = firstPauseMs
    let isLater = false
    let isFailing = false
    for (;;) {
      const query = { service: options.service, max_lines: most, start_time: start }
      const page = await client.logs(place, query).catch((error: unknown) => {
        if (!isLater || !isTemporary(error)) throw error
        if (!isFailing) session.printer.note(`${error.message}; trying again`)
        isFailing = true
        return undefined
      })
      if (page === undefined) {
        await sleep(longestPauseMs)
        continue
      }
      isFailing = false
      const fresh = newEntries(page, printed)
      for (const entry of fresh) printEntry(session, entry)
      if (!options.follow) return
      start =
        page.reduce((latest, { timestamp }) => (timestamp > latest ? timestamp : latest), start ?? '') || undefined
      // The first read returns old lines, so it does not change the pause.
      if (isLater) pauseMs = nextPauseMs(pauseMs, fresh.length > 0)
      isLater = true
      most = mostLines
      await sleep(pauseMs)
    }
  }
  const fields = inOptions({ service: '--service', start_time: '--since', max_lines: '--lines' })
  return act<Options>(run, parsed, (session, [name], options) => print(session, name, options), fields)
}
export default command
