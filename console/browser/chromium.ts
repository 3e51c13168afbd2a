/** Starts Debian's Chromium, and builds the console for it. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'

const executable = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(path => existsSync(path))
const checkout = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Builds the console if its build is out of date. Returns false if there is no browser, or if the build fails. The lock
 * makes parallel test files build one after the other.
 */
export function canRun(): boolean {
  if (executable === undefined) return false
  const build = ['console/package.json', 'make', '--silent', 'console']
  return spawnSync('flock', build, { cwd: checkout, timeout: 300_000 }).status === 0
}

export async function openBrowser(): Promise<Browser> {
  const { chromium } = await import('playwright-core')
  // Chromium cannot use its sandbox as root. It opens only pages of test servers.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath: executable ?? '', args })
}
