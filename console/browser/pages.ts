/** Opens the console in a browser window, logs in, navigates to its pages, and checks them. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'

type Opened = { context: BrowserContext; page: Page; faults: string[] }
type Options = { width?: number; colorScheme?: 'light' | 'dark' }

/** Opens the console in a new window. Records errors, dialogs and sources that the policy blocks in `faults`. */
export async function openConsole(browser: Browser, address: string, options: Options = {}): Promise<Opened> {
  const { width = 1280, colorScheme = 'light' } = options
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: 'reduce' })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', error => faults.push(error.message))
  page.on('dialog', dialog => faults.push(dialog.message()))
  page.on('console', message => {
    // Chromium logs each response with an error status. Tests cause some of them on purpose.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  await page.exposeFunction('hit', () => faults.push('the page ran a text from the server as code'))
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', event => console.error('CSP', event.violatedDirective, event.blockedURI))",
  )
  await page.goto(`${address}/console/`)
  await page.waitForSelector('h1')
  return { context, page, faults }
}

export async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Access token').fill(token)
  await page.keyboard.press('Enter')
  await page.waitForSelector('.shell')
}

/**
 * Navigates without a reload, like a link: a reload would remove the token.
 * @param place the path below `/console`
 */
export async function goTo(page: Page, place: string): Promise<void> {
  const address = JSON.stringify(`/console${place}`)
  await page.evaluate(`history.pushState(null, '', ${address}); dispatchEvent(new PopStateEvent('popstate'))`)
  await page.locator(`main[data-page="${place}"]`).waitFor()
  await page.locator('main h1').waitFor()
  await page.locator('.loading').waitFor({ state: 'detached' })
}

/** Reads axe only when a test runs: the package may not be installed when this file is imported. */
const readAxe = (): string => readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Returns the accessibility violations of the page. The policy of the page does not apply to this script. */
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(readAxe())
  const found = await page.evaluate<{ id: string; nodes: { target: string[]; failureSummary: string }[] }[]>(
    'axe.run().then(({ violations }) => violations)',
  )
  return found.flatMap(({ id: rule, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${rule} ${target.join(' ')}: ${failureSummary}`),
  )
}

/** Returns the width of the whole page, and the right edge of the current tab. Both must fit into the window. */
export async function extent(page: Page): Promise<{ width: number; tabEnd: number | undefined }> {
  const width = await page.evaluate<number>('document.documentElement.scrollWidth')
  const tab = page.locator('nav[data-keeps-focus] [aria-current=page]')
  const box = (await tab.count()) === 0 ? null : await tab.boundingBox()
  return { width, tabEnd: box === null ? undefined : box.x + box.width }
}
