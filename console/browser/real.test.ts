/** Tests the pages of a database and its branch with real Postgres servers. No response is faked. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type EmbeddedProvider, startEmbedded } from '../../e2e/providers/embedded.ts'
import { canRun, openBrowser } from './chromium.ts'
import { extent, findings, goTo, logIn, openConsole } from './pages.ts'

const runs = canRun()
const pageMs = 60_000
const wait = { prefer: 'wait=60' }

let provider: EmbeddedProvider
let browser: Browser
/** The database and the branch: the path below `/console`, and a word that only the table of this target contains. */
let targets: readonly { path: string; word: string }[]
beforeAll(async () => {
  if (!runs) return
  provider = await startEmbedded()
  const api = await provider.client()
  const created = await api.create({ name: 'shop' })
  expect(created.status, JSON.stringify(created.body)).toBe(200)
  const database = `/databases/${created.body.id}`
  const write = async (path: string, text: string) => {
    const { lines } = await api.sql(path, { text, mode: 'write' })
    expect(lines.at(-1)?.type, JSON.stringify(lines)).toBe('complete')
  }
  await write(database, "CREATE TABLE words (word text PRIMARY KEY); INSERT INTO words VALUES ('both')")
  const branchResponse = await api.call<{ id: string }>(
    'POST',
    `${database}/branches`,
    { display_name: 'Preview' },
    wait,
  )
  expect(branchResponse.status, JSON.stringify(branchResponse.body)).toBe(201)
  const branch = `${database}/branches/${branchResponse.body.id}`
  targets = [
    { path: database, word: 'source' },
    { path: branch, word: 'copy' },
  ]
  for (const { path, word } of targets) await write(path, `INSERT INTO words VALUES ('${word}')`)
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await provider?.stop()
})

/** For each page, a function that waits until the page shows its data. */
const waits: Record<string, (page: Page, word: string) => Promise<void>> = {
  connect: page => page.getByLabel('psql').first().waitFor(),
  services: page =>
    page
      .getByText(/The branch has no services|Claude, Cursor/)
      .first()
      .waitFor(),
  sql: async (page, word) => {
    const editor = page.locator('.cm-content')
    await editor.fill('SELECT word FROM words ORDER BY word')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByRole('cell', { name: word, exact: true }).waitFor()
    await page.getByText('2 rows in').waitFor()
  },
  tables: async (page, word) => {
    await page.getByRole('cell', { name: word, exact: true }).waitFor()
    await page.getByText('2 rows in').waitFor()
  },
  logs: page => page.locator('.log-line').first().waitFor(),
  // The metrics have one sample every 30 s.
  metrics: page => page.locator('.plot canvas').first().waitFor(),
  queries: page =>
    page
      .getByRole('button', { name: /INSERT INTO words/ })
      .first()
      .waitFor(),
}

if (!runs) test.skip('pages of a real installation: need Chromium and the packages of console/', () => {})
else
  describe('pages of a real installation', () => {
    test.each([
      ['light', 1280],
      ['dark', 360],
    ] as const)(
      'show a database and its branch, without accessibility violations (%s, %d px)',
      async (colorScheme, width) => {
        const { context, page, faults } = await openConsole(browser, provider.api, { colorScheme, width })
        page.setDefaultTimeout(pageMs)
        await logIn(page, await provider.token())
        for (const { path, word } of targets)
          for (const [tab, waitForData] of Object.entries(waits)) {
            const place = `${path}/${tab}`
            await goTo(page, place)
            await waitForData(page, word)
            expect(await page.locator('main .notice.tone-bad').allTextContents(), place).toEqual([])
            expect(await findings(page), place).toEqual([])
            expect((await extent(page)).width, place).toBe(width)
          }
        expect(faults).toEqual([])
        await context.close()
      },
      600_000,
    )

    test('show that the branch no longer exists after its deletion', async () => {
      const { context, page, faults } = await openConsole(browser, provider.api)
      page.setDefaultTimeout(pageMs)
      await logIn(page, await provider.token())
      const { path = '' } = targets[1] ?? {}
      await goTo(page, `${path}/tables`)
      await page.getByRole('cell', { name: 'copy', exact: true }).waitFor()
      const api = await provider.client()
      await api.call('DELETE', path, undefined, wait)
      await page.getByRole('heading', { name: 'There is no branch with this id' }).waitFor()
      expect(faults).toEqual([])
      await context.close()
    }, 240_000)
  })
