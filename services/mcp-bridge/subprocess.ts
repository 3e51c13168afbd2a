/**
 * The tool server's process. The bridge starts it, writes and reads lines, and restarts it after a failure. The bridge
 * logs its stderr, limits the length of lines, and stops the process when the bridge stops.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Logger } from 'pino'
import { lineReader } from '../mcp-protocol/lines.ts'
import { messageTextOf } from '../mcp-protocol/message-text.ts'

export type SubprocessSettings = {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly directory: string | undefined
  readonly restartOnFailure: boolean
  /** The maximum number of consecutive restarts. A process that runs for a minute resets the count. */
  readonly maximumRestarts: number
  readonly restartDelayMs: number
  readonly gracefulShutdownMs: number
}

type SubprocessEvents = {
  readonly onLine: (line: string) => void
  readonly onUp: () => void
  /** Called when the process ends. Earlier requests get no response. */
  readonly onDown: () => void
}

/** `failed`: the bridge does not restart the process any more. */
type SubprocessState = 'running' | 'restarting' | 'failed' | 'stopped'

const longestLineBytes = 67_108_864
const longestErrorLineBytes = 65_536
const longestLogLine = 2_000
const steadyMs = 60_000
/** Environment variables that the process inherits. The bridge's secrets are not among them. */
const inherited = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'TZ', 'USER', 'NODE_EXTRA_CA_CERTS']

/** Logs a JSON line as an object, so that its fields can be searched. */
function logged(line: string): object {
  if (line.length <= longestLogLine && line.startsWith('{')) {
    try {
      return { toolServer: JSON.parse(line) }
    } catch {
      // The text only starts like JSON.
    }
  }
  return { line: line.slice(0, longestLogLine) }
}

export class Subprocess {
  readonly #settings: SubprocessSettings
  readonly #events: SubprocessEvents
  readonly #logger: Logger
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined
  #state: SubprocessState = 'restarting'
  #restarts = 0
  #timer: NodeJS.Timeout | undefined
  #ended: Promise<void> = Promise.resolve()

  constructor(settings: SubprocessSettings, events: SubprocessEvents, logger: Logger) {
    this.#settings = settings
    this.#events = events
    this.#logger = logger
  }

  get state(): SubprocessState {
    return this.#state
  }

  start(): void {
    const { command, args, env, directory } = this.#settings
    const base = Object.fromEntries(inherited.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])))
    const child = spawn(command, [...args], {
      cwd: directory,
      env: { ...base, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.#child = child
    const startedAt = Date.now()
    this.#ended = new Promise(resolve => {
      let isOver = false
      const over = (reason: string) => {
        if (isOver) return
        isOver = true
        resolve()
        this.#onEnd(reason, Date.now() - startedAt)
      }
      child.once('error', error => over(error.message))
      child.once('close', (code, signal) => over(signal === null ? `exit code ${code}` : signal))
    })
    child.once('spawn', () => {
      this.#state = 'running'
      this.#logger.info({ toolServerPid: child.pid, command }, 'the tool server is running')
      this.#events.onUp()
    })
    // The `close` event reports a process that ends during a write.
    child.stdin.on('error', () => {})
    const readOutput = lineReader(longestLineBytes)
    child.stdout.on('data', (chunk: Buffer) => {
      for (const line of readOutput(chunk)) {
        if (line.kind === 'too long') {
          this.#logger.error({ longestLineBytes }, 'the tool server wrote a line that is too long; the bridge kills it')
          child.kill('SIGKILL')
        } else if (this.#child === child) this.#takeLine(line.bytes)
      }
    })
    const readErrors = lineReader(longestErrorLineBytes)
    child.stderr.on('data', (chunk: Buffer) => {
      for (const line of readErrors(chunk)) {
        const text = line.kind === 'too long' ? '(line too long)' : line.bytes.toString().trimEnd()
        if (text !== '') this.#logger.info(logged(text), 'tool server')
      }
    })
  }

  #takeLine(bytes: Buffer): void {
    const text = messageTextOf(bytes)
    if (text === undefined) this.#logger.warn('the tool server wrote a line that is not valid UTF-8')
    else if (text.trim() !== '') this.#events.onLine(text)
  }

  /** Returns false if the process is not running. */
  send(line: string): boolean {
    if (this.#state !== 'running' || this.#child === undefined) return false
    this.#child.stdin.write(`${line}\n`)
    return true
  }

  #onEnd(reason: string, ranMs: number): void {
    const { restartOnFailure, maximumRestarts, restartDelayMs } = this.#settings
    const wasRunning = this.#state === 'running'
    this.#child = undefined
    if (this.#state === 'stopped') return
    if (ranMs > steadyMs) this.#restarts = 0
    const isLast = !restartOnFailure || this.#restarts >= maximumRestarts
    this.#state = isLast ? 'failed' : 'restarting'
    this.#logger.error({ reason, restarts: this.#restarts, isLast }, 'the tool server has ended')
    if (wasRunning) this.#events.onDown()
    if (isLast) return
    this.#restarts += 1
    this.#timer = setTimeout(() => this.start(), restartDelayMs)
  }

  /** Closes stdin, so that the process ends. After a timeout, sends SIGTERM, and then SIGKILL. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    const wasRunning = this.#state === 'running'
    this.#state = 'stopped'
    const child = this.#child
    if (child === undefined) return
    if (wasRunning) this.#events.onDown()
    const { gracefulShutdownMs } = this.#settings
    const terminate = setTimeout(() => child.kill('SIGTERM'), gracefulShutdownMs / 2)
    const kill = setTimeout(() => child.kill('SIGKILL'), gracefulShutdownMs)
    child.stdin.end()
    await this.#ended
    clearTimeout(terminate)
    clearTimeout(kill)
  }
}
