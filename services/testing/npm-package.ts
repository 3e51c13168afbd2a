/** npm packages for tests that are too large for every installation. npm downloads each package once. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { madeOnce, run } from './made-once.ts'

const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--fetch-retries=1']

/** The folder of this version, with its dependencies. Undefined if it is unavailable. */
export function npmPackage(name: string, version: string): string | undefined {
  const folder = madeOnce(`${name.replace('/', '-')}-${version}`, making => {
    const installed = join(making, 'installed')
    mkdirSync(installed)
    writeFileSync(join(installed, 'package.json'), '{"private":true}')
    return run('npm', ['install', '--prefix', installed, ...flags, `${name}@${version}`]) ? installed : undefined
  })
  return folder && join(folder, 'node_modules', name)
}
