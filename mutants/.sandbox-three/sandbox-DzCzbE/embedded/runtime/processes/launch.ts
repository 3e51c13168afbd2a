/**
 * Starts a process and tells how it ended. It stands in a session of its own, so that a Ctrl-C meant for the runtime
 * does not reach it, gets exactly the environment it is given, and leaves a record on disk by which it is found again
 * should the runtime die first.
 */
// @ts-nocheck

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Owner } from '../directories.ts'
import { messageOf } from '../errors.ts'
import { type ProcessIdentity, readProcess } from './table.ts'

type LaunchOptions = {
  /** The program, looked up in the PATH of `environment`, and its arguments. */
  command: [string, ...string[]]
  environment: ReadonlyMap<string, string>
  workingDirectory: string
  owner: Owner | undefined
  stopSignal: NodeJS.Signals
  /** Where records lie. */
  records: string
  /** Take output; false asks for a moment's rest before more is read. */
  onOutput: { stdout(chunk: Buffer): boolean; stderr(chunk: Buffer): boolean }
}

/** How a process ended: `exitCode` is 128 + the signal's number where it died of one. */
export type Exit = { exitCode: number; signal: number | undefined; error?: string }

export type Launched = ProcessIdentity & {
  stopSignal: NodeJS.Signals
  /** Resolves when the process has ended; its output may still come. */
  exited: Promise<Exit>
  /** Resolves when all output is in; after `close` at the latest. */
  drained: Promise<void>
  /** Gives up on output that a descendant may still hold open, and forgets the record. */
  close(): void
}

export type ProcessRecord = ProcessIdentity & {
  /** Of the system's run: after a reboot the same numbers mean other processes. */
  boot: string
  stopSignal: NodeJS.Signals
}

export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()

/** Exit code of a command that could not be started (as shells and container runtimes have it). */
const cannotStart = 128

/** How long a flood of output is left unread at a time. */
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

/** Starts it, or tells by `exited` (code 128, with an error) why that cannot be. Never throws. */
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
  // It cannot be gone from the table: Node collects it only in a later turn.
  const startTime = readProcess(pid)?.startTime ?? ''
  const record = join(records, `${pid}.json`)
  try {
    writeFileSync(record, JSON.stringify({ pid, startTime, boot: bootId(), stopSignal } satisfies ProcessRecord))
  } catch {
    // A full disk. The process is found by its environment, too.
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
