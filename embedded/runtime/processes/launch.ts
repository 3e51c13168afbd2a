/**
 * Starts a process and reports how it ended. The process has its own session, so that a Ctrl-C for the runtime does not
 * reach it. It gets exactly the given environment. A record on disk lets the next start find it if the runtime dies
 * first.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Owner } from '../directories.ts'
import { messageOf } from '../errors.ts'
import { type ProcessIdentity, readProcess } from './table.ts'

type LaunchOptions = {
  /** The program, found through PATH of `environment`, and its arguments. */
  command: [string, ...string[]]
  environment: ReadonlyMap<string, string>
  workingDirectory: string
  owner: Owner | undefined
  stopSignal: NodeJS.Signals
  /** The directory of the records. */
  records: string
  /** Receives output. Returns false to pause reading briefly. */
  onOutput: { stdout(chunk: Buffer): boolean; stderr(chunk: Buffer): boolean }
}

/** How a process ended. `exitCode` is 128 + the signal's number if a signal killed it. */
export type Exit = { exitCode: number; signal: number | undefined; error?: string }

export type Launched = ProcessIdentity & {
  stopSignal: NodeJS.Signals
  /** Resolves when the process has ended. Output may still arrive. */
  exited: Promise<Exit>
  /** Resolves when all output was read, at the latest after `close`. */
  drained: Promise<void>
  /** Stops reading output that a descendant may still keep open, and deletes the record. */
  close(): void
}

export type ProcessRecord = ProcessIdentity & {
  /** Identifies the current boot. After a reboot, the same numbers identify other processes. */
  boot: string
  stopSignal: NodeJS.Signals
}

export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()

/** The exit code of a command that could not be started, as in shells and container runtimes. */
const cannotStart = 128

/** How long reading pauses after a flood of output. */
const restMs = 25

function drain(child: ChildProcess, onOutput: LaunchOptions['onOutput']): Promise<void> {
  const end = (stream: Readable | null, take: (chunk: Buffer) => boolean): Promise<void> =>
    new Promise(resolve => {
      if (stream === null) return resolve()
      stream.on('data', (chunk: Buffer) => {
        if (take(chunk)) return
        stream.pause()
        setTimeout(() => stream.resume(), restMs)
      })
      stream.on('error', () => resolve())
      stream.on('close', () => resolve())
    })
  return Promise.all([end(child.stdout, onOutput.stdout), end(child.stderr, onOutput.stderr)]).then(() => {})
}

/** Starts a process. If this is not possible, `exited` resolves with code 128 and the error. Never throws. */
export function launch(options: LaunchOptions): Launched {
  const { command, environment, workingDirectory, owner, stopSignal, records, onOutput } = options
  const [program, ...args] = command
  let child: ChildProcess
  try {
    child = spawn(program, args, {
      cwd: workingDirectory,
      env: Object.fromEntries(environment),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(owner && { uid: owner.uid, gid: owner.gid }),
    })
  } catch (error) {
    return failed(messageOf(error), stopSignal)
  }
  const { pid } = child
  const exited = new Promise<Exit>(resolve => {
    child.once('error', error => resolve({ exitCode: cannotStart, signal: undefined, error: error.message }))
    child.once('exit', (code, signalName) => {
      const signal = signalName === null ? undefined : constants.signals[signalName]
      resolve({ exitCode: code ?? cannotStart + (signal ?? 0), signal })
    })
  })
  if (pid === undefined) return { ...failed('', stopSignal), exited }
  // The process is still in the process table, because Node reaps it only in a later turn.
  const startTime = readProcess(pid)?.startTime ?? ''
  const record = join(records, `${pid}.json`)
  try {
    writeFileSync(record, JSON.stringify({ pid, startTime, boot: bootId(), stopSignal } satisfies ProcessRecord))
  } catch {
    // The disk is full. The next start can also find the process by its environment.
  }
  const drained = drain(child, onOutput)
  return {
    pid,
    startTime,
    stopSignal,
    exited,
    drained,
    close() {
      child.stdout?.destroy()
      child.stderr?.destroy()
      rmSync(record, { force: true })
    },
  }
}

const failed = (error: string, stopSignal: NodeJS.Signals): Launched => ({
  pid: 0,
  startTime: '',
  stopSignal,
  exited: Promise.resolve({ exitCode: cannotStart, signal: undefined, error }),
  drained: Promise.resolve(),
  close() {},
})
