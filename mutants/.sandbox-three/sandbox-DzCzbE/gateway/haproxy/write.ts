/** Writes what HAProxy starts from: its configuration with the script of logins, and the files of its maps, which stay empty. */
// @ts-nocheck

import { mkdir, rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type HaproxyOptions, renderConfiguration } from './configuration.ts'
import { renderLoginScript } from './logins.ts'

/** @throws Error where the directory cannot be written to */
export async function writeConfiguration(options: HaproxyOptions): Promise<void> {
  const { paths } = options
  await mkdir(dirname(paths.configuration), { recursive: true })
  for (const map of [paths.allow, paths.ports, paths.state]) await writeFile(map, '', { mode: 0o600 })
  await writeFile(paths.logins, renderLoginScript(options.logins), { mode: 0o600 })
  const partial = `${paths.configuration}.partial`
  await writeFile(partial, renderConfiguration(options), { mode: 0o600 })
  await rename(partial, paths.configuration)
}
