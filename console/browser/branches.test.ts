/** Tests the pages of branches in a browser, against an API in this process. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canRun, openBrowser } from './chromium.ts'
import { fill, type Installation, startInstallation, until } from './installation.ts'
import { findings, goTo, logIn as logInWith, openConsole } from './pages.ts'

const runs = canRun()

let installation: Installation
let browser: Browser
let id: string
/** The ids of two branches with the same display name. */
let firstId: string
let secondId: string
beforeAll(async () => {
  if (!runs) return
  installation = await startInstallation()
  ;({ id, branchId: firstId } = await fill(installation, 'Preview'))
  secondId = (await installation.call('POST', `/databases/${id}/branches`, { display_name: 'Preview' })).body.id ?? ''
  await until(async () => (await statusOf(secondId)) === 'available')
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await installation?.stop()
})

const pathOf = (branch: string) => `/databases/${id}/branches/${branch}`
const statusOf = async (branch: string) => (await installation.call('GET', pathOf(branch))).body.status
const shortOf = (branch: string) => branch.slice(-8)
const nameOf = (branch: string) => `Preview (${shortOf(branch)})`

async function open() {
  const opened = await openConsole(browser, installation.address)
  await logIn(opened.page)
  return opened
}
const logIn = async (page: Page) => logInWith(page, await installation.token())
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name, exact: true })

type SqlRow = readonly (string | null)[]
const answerWith = (names: readonly string[], rows: readonly SqlRow[]) => {
  const lines = [
    { type: 'columns', statement: 0, columns: names.map(name => ({ name, type: 25 })) },
    { type: 'rows', statement: 0, rows },
    { type: 'complete', statement: 0, command: 'SELECT', row_count: rows.length, ms: 1, more: false },
  ]
  return { body: lines.map(line => `${JSON.stringify(line)}\n`).join(''), contentType: 'application/x-ndjson' }
}

/** Returns the short id of the branch in a URL, or 'database' if the URL has no branch. */
const targetOf = (url: string): string => {
  const [, branch] = /\/branches\/([^/]+)\//.exec(url) ?? []
  return branch === undefined ? 'database' : shortOf(branch)
}

/** Answers every statement with one row. The row and the table have the name of the target. */
async function answerSql(page: Page): Promise<void> {
  await page.route('**/sql', route => {
    const target = targetOf(route.request().url())
    const isCatalog = route.request().postData()?.includes('pg_class') === true
    const column = ['public', `of ${target}`, 'r', '5', 'word', 'text', 't', 'f', 'f', 'f']
    return route.fulfill(
      isCatalog ? answerWith(column, [column]) : answerWith(['word', 'xmin'], [[`row of ${target}`, '7']]),
    )
  })
}

if (!runs) test.skip('branches in a browser: needs Chromium and the packages of console/', () => {})
else
  describe('branches in a browser', () => {
    test('open from the overview, the tree and the palette, and have unique names', async () => {
      const { context, page, faults } = await open()
      await page.getByRole('button', { name: 'Show the branches of shop' }).click()
      await page.getByRole('link', { name: nameOf(firstId) }).click()
      await heading(page, nameOf(firstId)).waitFor()
      expect(page.url()).toBe(`${installation.address}/console${pathOf(firstId)}/connect`)
      await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: 'Branches' }).click()
      await page.getByRole('link', { name: nameOf(secondId) }).click()
      await heading(page, nameOf(secondId)).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(shortOf(firstId))
      await page
        .getByRole('option', { name: `shop / ${nameOf(firstId)}` })
        .first()
        .waitFor()
      await page.keyboard.press('Enter')
      await heading(page, nameOf(firstId)).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(`${nameOf(secondId)} / Lo`)
      await page.keyboard.press('Enter')
      await page.waitForURL(`**${pathOf(secondId)}/logs`)
      await page.goBack()
      await heading(page, nameOf(firstId)).waitFor()
      await page.goForward()
      await heading(page, nameOf(secondId)).waitFor()
      await page.reload()
      await logIn(page)
      await heading(page, nameOf(secondId)).waitFor()
      expect(page.url()).toMatch(/\/logs$/)
      expect(faults).toEqual([])
      await context.close()
    })

    test('do not share tables, statements, tabs or staged changes', async () => {
      const { context, page } = await open()
      await answerSql(page)
      for (const [path, target] of [
        [pathOf(firstId), shortOf(firstId)],
        [`/databases/${id}`, 'database'],
        [pathOf(secondId), shortOf(secondId)],
      ] as const) {
        await goTo(page, `${path}/tables`)
        await page.getByRole('cell', { name: `row of ${target}`, exact: true }).waitFor()
        expect(await page.getByLabel('Table', { exact: true }).locator('option').allTextContents()).toEqual([
          `of ${target}`,
        ])
        expect(await page.getByRole('heading', { name: 'staged change' }).count(), target).toBe(0)
        await page.getByRole('button', { name: 'Change row 1' }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Stage the deletion' }).click()
        await page.getByRole('heading', { name: '1 staged change' }).waitFor()
        await goTo(page, `${path}/sql`)
        expect(await page.locator('.cm-content').textContent(), target).not.toContain('SELECT')
        await page.locator('.cm-content').click()
        await page.keyboard.type(`SELECT '${target}'`)
        await page.keyboard.press('Control+Enter')
        await page.getByRole('cell', { name: `row of ${target}`, exact: true }).waitFor()
        // Only the page of a database has a control that selects where a statement runs.
        expect(await page.getByLabel('Run on').count()).toBe(target === 'database' ? 1 : 0)
      }
      await goTo(page, `${pathOf(firstId)}/sql`)
      await page
        .locator('.cm-content')
        .getByText(`SELECT '${shortOf(firstId)}'`)
        .waitFor()
      await context.close()
    })

    test('make the browser ask before it closes the console with staged changes', async () => {
      const { context, page, faults } = await open()
      await answerSql(page)
      await goTo(page, `${pathOf(firstId)}/tables`)
      await page.getByRole('button', { name: 'Change row 1' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Stage the deletion' }).click()
      await goTo(page, '/')
      const [dialog] = await Promise.all([page.waitForEvent('dialog'), page.close({ runBeforeUnload: true })])
      expect(dialog.type()).toBe('beforeunload')
      await dialog.dismiss()
      expect(faults).toHaveLength(1)
      await context.close()
    })

    test('do not share logs, metrics or statistics', async () => {
      const { context, page, faults } = await open()
      const requested = new Set<string>()
      const recordRequest = (url: string) =>
        requested.add(`${targetOf(url)} ${new URL(url).pathname.split('/').at(-1)}`)
      await page.route('**/logs?**', route => {
        recordRequest(route.request().url())
        const logs = [{ timestamp: new Date().toISOString(), level: 'LOG', message: targetOf(route.request().url()) }]
        return route.fulfill({ json: { logs } })
      })
      await page.route('**/metrics?**', route => {
        recordRequest(route.request().url())
        const columns = ['time', 'used_bytes', 'size_bytes']
        const values = [[new Date().toISOString(), 2 ** 30, 500 * 2 ** 30]]
        return route.fulfill({ json: { series: [{ name: 'volume', columns, values }] } })
      })
      await page.route('**/queries?**', route => {
        recordRequest(route.request().url())
        const numbers = { calls: 1, total_ms: 1, mean_ms: 1, max_ms: 1, share: 1, rows: 1 }
        const text = `SELECT '${targetOf(route.request().url())}'`
        return route.fulfill({ json: { queries: [{ id: '1', role: 'app', text, ...numbers }] } })
      })
      await goTo(page, `${pathOf(firstId)}/logs`)
      await page.getByText(shortOf(firstId), { exact: true }).waitFor()
      await goTo(page, `${pathOf(firstId)}/metrics`)
      await page.getByText('of the whole file system (500 GiB)').waitFor()
      expect(await findings(page)).toEqual([])
      await goTo(page, `${pathOf(firstId)}/queries`)
      await page.getByRole('button', { name: `SELECT '${shortOf(firstId)}'` }).waitFor()
      expect([...requested].sort()).toEqual(['logs', 'metrics', 'queries'].map(page => `${shortOf(firstId)} ${page}`))
      expect(faults).toEqual([])
      await context.close()
    })

    test('show their services without the controls that a database has', async () => {
      const { context, page, faults } = await open()
      const mcp = { service_type: 'mcp', state: 'running', uri: 'https://preview.test/mcp', bearer_token: 'secret' }
      await page.route(`**/managed/v1${pathOf(firstId)}*`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), services: [mcp] } })
      })
      await goTo(page, `${pathOf(firstId)}/services`)
      await page.getByText(mcp.uri, { exact: true }).waitFor()
      expect(await page.getByRole('heading', { level: 2 }).count()).toBe(1)
      expect(await page.getByRole('button', { name: /^(Add|Change|Remove)/ }).count()).toBe(0)
      await goTo(page, `${pathOf(firstId)}/logs`)
      expect(await page.getByLabel('Log of').locator('option').count()).toBe(2)
      expect(await findings(page)).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    })

    test.each([
      ['creating', {}, 'The branch is being created.'],
      ['deleting', {}, 'The branch is being deleted'],
      [
        'failed',
        { attention: [{ condition: 'Ready', message: 'the disk is full', since: '2026-01-01T00:00:00Z' }] },
        'The branch could not be created: the disk is full. It has no data',
      ],
      ['available', { expires_at: '2026-01-01T00:00:00Z' }, 'The branch has expired'],
    ])('explain the state %s and what to do (%j)', async (status, changes, text) => {
      const { context, page, faults } = await open()
      await page.route(`**/managed/v1${pathOf(firstId)}*`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), status, ...changes } })
      })
      await goTo(page, `${pathOf(firstId)}/connect`)
      await page.getByText(text).waitFor()
      expect(await page.getByRole('navigation', { name: 'Parts of the branch' }).count()).toBe(
        status === 'available' ? 1 : 0,
      )
      expect(await findings(page)).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    })

    test('show their source and expiry, and later their deletion', async () => {
      const expires = new Date(Date.now() + 3 * 86_400_000).toISOString()
      const request = { display_name: 'Child', source_branch_id: firstId, expires_at: expires }
      const child = (await installation.call('POST', `/databases/${id}/branches`, request)).body.id ?? ''
      await expect.poll(() => statusOf(child)).toBe('available')
      const { context, page, faults } = await open()
      await goTo(page, `${pathOf(child)}/connect`)
      await page.locator('.page-head').getByText('expires in 3 days').waitFor()
      await page
        .locator('.page-head')
        .getByRole('link', { name: nameOf(firstId) })
        .click()
      await heading(page, nameOf(firstId)).waitFor()
      await page.goBack()
      await heading(page, 'Child').waitFor()
      await installation.call('DELETE', pathOf(child))
      await page.getByText(/The branch is being deleted|There is no branch with this id/).waitFor()
      await goTo(page, `${pathOf('00000000-0000-4000-8000-000000000000')}/sql`)
      await heading(page, 'There is no branch with this id').waitFor()
      expect(await findings(page)).toEqual([])
      await page.getByRole('link', { name: 'All branches of the database' }).click()
      await page.getByRole('link', { name: nameOf(firstId) }).waitFor()
      expect(faults).toEqual([])
      await context.close()
    })

    test('show a hint for a duplicate name, and an error of the API at the field', async () => {
      const { context, page } = await open()
      await goTo(page, `/databases/${id}/branches`)
      await page.getByRole('button', { name: 'New branch' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Display name').fill('Preview')
      await dialog.getByText('Another branch of the database has this name.').waitFor()
      const refused = 'display_name: must be shorter'
      await page.route('**/branches', route => {
        return route.fulfill({ status: 400, json: { code: 400, message: refused } })
      })
      await dialog.getByRole('button', { name: 'New branch' }).click()
      await dialog.locator('.field-error').getByText('Must be shorter').waitFor()
      await goTo(page, '/new')
      await page.getByLabel('Name', { exact: true }).fill('shop')
      await page.getByRole('button', { name: 'Create the database' }).click()
      const fault = page.locator('.field-error')
      await fault.getByText('Another database of the account has this name').waitFor()
      expect(await page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid')).toBe('true')
      expect(await findings(page)).toEqual([])
      await page.getByLabel('Name', { exact: true }).fill('shop2')
      expect(await fault.count()).toBe(0)
      await context.close()
    })
  })
