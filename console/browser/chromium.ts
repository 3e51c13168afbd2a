/** Debian's Chromium, and the console that it opens. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'

const executable = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(path => existsSync(path))
const checkout = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Whether there is a browser, and the console is built: a build that is up to date takes no time. Test files run at once,
 * and one of them builds.
 */
export function canRun(): boolean {
  if (executable === undefined) return false
  const build = ['console/package.json', 'make', '--silent', 'console']
  return spawnSync('flock', build, { cwd: checkout, timeout: 300_000 }).status === 0
}

export async function openBrowser(): Promise<Browser> {
  const { chromium } = await import('playwright-core')
  // As root, Chromium has no sandbox of its own; it opens only the API of this process.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath: executable ?? '', args })
}
