/**
 * Client programs with the official Python and Go SDKs. Each SDK is downloaded once, and a script of this repository
 * uses it.
 */
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pythonLibrary } from '../python-package.ts'

export type Program = { readonly command: string; readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv }

/** The environment of a program that must not find this repository's modules. */
export const bare = { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: tmpdir() }

const besides = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** `script`: its path next to this file. Undefined if the SDK, or Python 3.10 for it, is unavailable. */
export function pythonProgram(script: string): Program | undefined {
  const library = pythonLibrary('mcp', '2.3.0')
  if (library === undefined) return undefined
  return {
    command: 'python3',
    args: [besides(script)],
    env: { ...bare, PYTHONPATH: library, PYTHONWARNINGS: 'ignore' },
  }
}

/**
 * `source`: its path in go-client. The program is built in `scratch`. Undefined if the SDK, or Go for it, is
 * unavailable.
 */
export function goProgram(source: string, scratch: string): Program | undefined {
  const command = join(scratch, 'client')
  const { status } = spawnSync('go', ['build', '-o', command, source], {
    cwd: besides('go-client'),
    env: { ...process.env, GOFLAGS: '-mod=readonly', GOTOOLCHAIN: 'local' },
    stdio: 'ignore',
    timeout: 100_000,
  })
  return status === 0 ? { command, args: [], env: bare } : undefined
}
