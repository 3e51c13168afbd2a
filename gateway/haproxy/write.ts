/** Writes HAProxy's initial files: configuration, scripts, placeholder certificate, and map files, which stay empty. */
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { renderBodyScript } from './body-limits.ts'
import { type HaproxyOptions, renderConfiguration } from './configuration.ts'
import type { HttpsOptions } from './https.ts'
import { renderLoginScript } from './logins.ts'
import type { Paths } from './paths.ts'

/** @throws Error if the directory cannot be written to */
export async function writeConfiguration(options: HaproxyOptions): Promise<void> {
  const { paths } = options
  await mkdir(dirname(paths.configuration), { recursive: true })
  for (const map of [paths.allow, paths.ports, paths.state]) await writeFile(map, '', { mode: 0o600 })
  if (options.https !== undefined) await writeHttps(paths, options.https)
  await writeFile(paths.logins, renderLoginScript(options.logins), { mode: 0o600 })
  const partial = `${paths.configuration}.partial`
  await writeFile(partial, renderConfiguration(options), { mode: 0o600 })
  await rename(partial, paths.configuration)
}

async function writeHttps(paths: Paths, { placeholder: { cert, key }, bodies }: HttpsOptions): Promise<void> {
  await writeFile(paths.bodies, renderBodyScript(bodies), { mode: 0o600 })
  for (const map of [paths.services, paths.callers]) await writeFile(map, '', { mode: 0o600 })
  await writeFile(paths.defaultCertificate, `${key}\n${cert}`, { mode: 0o600 })
  await writeFile(paths.certificates, `${paths.defaultCertificate}\n`, { mode: 0o600 })
}
