/**
 * A container's termination message: the file that its spec names (Kubernetes API, terminationMessagePath), or the last
 * lines of its log if the spec says so.
 */
import { closeSync, constants, fstatSync, openSync, readSync, unlinkSync } from 'node:fs'
import { readContainerLog } from '../logs/read.ts'
import type { Exit } from '../processes/launch.ts'
import type { Container } from './environment.ts'

/** Kubernetes' size limits for a message, and for the log used instead. */
const messageBytes = 4096
const fallbackLines = 80
const fallbackBytes = 2048

type TerminationSource = { container: Container; terminationFile: string; logDirectory: string }

export async function terminationMessage(
  { container, terminationFile, logDirectory }: TerminationSource,
  exit: Exit,
): Promise<string | undefined> {
  if (exit.error !== undefined) return exit.error
  const message = readBounded(terminationFile)
  if (message !== '') return message
  if (container.terminationMessagePolicy !== 'FallbackToLogsOnError' || exit.exitCode === 0) return undefined
  const lines = await readContainerLog(logDirectory, container.name, { tailLines: fallbackLines })
  const text = lines.map(line => line.slice(line.indexOf(' ') + 1)).join('\n')
  return text.slice(-fallbackBytes)
}

/** Removes the message of an earlier run of the container. If a directory is at its path, the directory stays. */
export function forgetTerminationMessage(terminationFile: string): void {
  try {
    unlinkSync(terminationFile)
  } catch {
    // the file does not exist
  }
}

/** Reads the beginning of a file that a workload wrote. Never follows a link and never waits for a pipe. */
function readBounded(path: string): string {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      if (!fstatSync(file).isFile()) return ''
      const buffer = Buffer.alloc(messageBytes)
      return buffer.toString('utf8', 0, readSync(file, buffer, 0, messageBytes, 0))
    } finally {
      closeSync(file)
    }
  } catch {
    return '' // the workload wrote no message
  }
}
