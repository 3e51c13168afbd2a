/// <reference lib="dom" />
/**
 * Measures the console in Chromium: the first paint, a result of 1,000,000 rows in the grid, and an overview of 1,000
 * databases. The baselines, from the same run, are a result of 1,000 rows and an overview of 10 databases.
 */
import type { CDPSession, Page } from 'playwright-core'
import { startSqlDatabase } from '../../api/sql/testing/database.ts'
import { token } from '../../api/testing/harness.ts'
import { median, percentile, print } from '../../bench/statistics.ts'
import { canRun, openBrowser } from './chromium.ts'
import { dist } from './installation.ts'

const scrolledMs = 5_000
const smallCount = 10
const largeCount = 1_000

if (!canRun()) throw new Error('Chromium is missing, or the console cannot be built')
const database = await startSqlDatabase({ consoleDirectory: dist })
const browser = await openBrowser()
const bearer = await token({ exp: Math.floor(Date.now() / 1000) + 3600 })

async function logIn(path: string): Promise<{ page: Page; session: CDPSession }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  const page = await context.newPage()
  await page.goto(new URL(`/console/${path}`, database.url).href)
  await page.getByLabel('Access token').fill(bearer)
  await page.keyboard.press('Enter')
  await page.waitForSelector('.shell')
  return { page, session: await context.newCDPSession(page) }
}

async function heapMiB(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  return usedSize / 2 ** 20
}

/**
 * Scrolls from the first row to the last within `scrolledMs`.
 * @returns the times between frames, in ms
 */
const scroll = (page: Page, selector: string): Promise<number[]> =>
  page.evaluate(
    ([selected, ms]) =>
      new Promise<number[]>(resolve => {
        const frame = document.querySelector(selected)
        const times: number[] = []
        const began = performance.now()
        let before = began
        const step = (now: number) => {
          times.push(now - before)
          before = now
          const part = (now - began) / ms
          if (frame !== null) frame.scrollTop = part * (frame.scrollHeight - frame.clientHeight)
          if (part < 1) requestAnimationFrame(step)
          else resolve(times.slice(1))
        }
        requestAnimationFrame(step)
      }),
    [selector, scrolledMs] as const,
  )

async function firstPaint(): Promise<void> {
  const paints: number[] = []
  for (let round = 0; round < 5; round++) {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(new URL('/console/', database.url).href)
    await page.getByLabel('Access token').waitFor()
    paints.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0))
    await context.close()
  }
  print('first contentful paint, new context', `${median(paints).toFixed(0)} ms (median of 5)`)
}

async function rows(count: number): Promise<void> {
  const { page, session } = await logIn(`databases/${database.id}/sql`)
  await page.locator('.cm-content').click()
  const before = await heapMiB(session)
  await page.keyboard.insertText(
    `SELECT n, md5(n::text) AS hash, n % 7 = 0 AS flag FROM generate_series(1, ${count}) AS n`,
  )
  await page.getByLabel('Row limit').selectOption(String(count))
  const began = performance.now()
  await page.keyboard.press('Control+Enter')
  await page.getByText(/rows in [\d,.]+ m?s/).waitFor({ timeout: 300_000 })
  const seconds = (performance.now() - began) / 1000
  const heap = (await heapMiB(session)) - before
  const times = await scroll(page, '.grid-frame')
  const late = times.filter(ms => ms > 25).length / times.length
  print(`${count} rows`, `${seconds.toFixed(1)} s, ${heap.toFixed(0)} MiB of heap`)
  const frames = `p50 ${median(times).toFixed(1)} ms, p95 ${percentile(times, 0.95).toFixed(1)} ms`
  print('  frames while scrolling over all rows', `${frames}, ${(late * 100).toFixed(1)} % longer than 25 ms`)
  await page.context().close()
}

async function overview(count: number): Promise<void> {
  const began = performance.now()
  const { page, session } = await logIn('')
  await page.getByText('Operations').first().waitFor()
  await page
    .locator('a', { hasText: /^(shop|filler\d+)$/ })
    .first()
    .waitFor()
  const shown = performance.now() - began
  const heap = await heapMiB(session)
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length)
  print(
    `${count} databases`,
    `${shown.toFixed(0)} ms from opening the page to the list, ${heap.toFixed(0)} MiB of heap, ${nodes} elements`,
  )
  await page.context().close()
}

async function fillTo(count: number, from: number): Promise<void> {
  for (let number = from; number < count; number++) {
    const { status, body } = await database.client.create(`filler${number}`)
    if (status !== 200) throw new Error(`filler${number}: ${status} ${JSON.stringify(body)}`)
  }
}

try {
  await firstPaint()
  await rows(1_000)
  await rows(1_000_000)
  await fillTo(smallCount, 1)
  await overview(smallCount)
  await fillTo(largeCount, smallCount)
  await overview(largeCount)
} finally {
  await browser.close()
  await database.stop()
}
