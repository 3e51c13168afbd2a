/** What the tests of this folder share. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Owner } from './directories.ts'

/** Polls until the condition holds. @throws where it does not within the deadline */
export async function until(
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 10_000,
  what = 'condition',
): Promise<void> {
  const end = performance.now() + deadlineMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what}: not met within ${deadlineMs} ms`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** A directory of the running test's own, removed when it ends. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-runtime-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** Whom workloads of a test run as: nobody in particular where the test is root, else the user itself. */
export const testOwner = (): Owner | undefined => (process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined)
