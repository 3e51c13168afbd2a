/** The pages of branches in a browser, against an API in this process: how they are found, and what is kept apart. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canRun, openBrowser } from './chromium.ts'
import { fill, type Installation, startInstallation, until } from './installation.ts'
import { findings, goTo, logIn as logInWith, openConsole } from './pages.ts'

const runs = canRun()

let installation: Installation
let browser: Browser
let id: string
/** Two branches with one display name. */
let one: string
let other: string
beforeAll(async () => {
  if (!runs) return
  installation = await startInstallation()
  ;({ id, branchId: one } = await fill(installation, 'Preview'))
  other = (await installation.call('POST', `/databases/${id}/branches`, { display_name: 'Preview' })).body.id ?? ''
  await until(async () => (await statusOf(other)) === 'available')
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

/** What the address of a request is about. */
const targetOf = (url: string): string => {
  const [, branch] = /\/branches\/([^/]+)\//.exec(url) ?? []
  return branch === undefined ? 'database' : shortOf(branch)
}

/** Every statement has one row of a table with the name of its target. */
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
    test('are opened from the overview, the tree and the palette, and told apart by their ids', async () => {
      const { context, page, faults } = await open()
      await page.getByRole('button', { name: 'Show the branches of shop' }).click()
      await page.getByRole('link', { name: nameOf(one) }).click()
      await heading(page, nameOf(one)).waitFor()
      expect(page.url()).toBe(`${installation.address}/console${pathOf(one)}/connect`)
      await page.getByRole('navigation', { name: 'Place' }).getByRole('link', { name: 'Branches' }).click()
      await page.getByRole('link', { name: nameOf(other) }).click()
      await heading(page, nameOf(other)).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(shortOf(one))
      await page
        .getByRole('option', { name: `shop / ${nameOf(one)}` })
        .first()
        .waitFor()
      await page.keyboard.press('Enter')
      await heading(page, nameOf(one)).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(`${nameOf(other)} / Lo`)
      await page.keyboard.press('Enter')
      await page.waitForURL(`**${pathOf(other)}/logs`)
      await page.goBack()
      await heading(page, nameOf(one)).waitFor()
      await page.goForward()
      await heading(page, nameOf(other)).waitFor()
      await page.reload()
      await logIn(page)
      await heading(page, nameOf(other)).waitFor()
      expect(page.url()).toMatch(/\/logs$/)
      expect(faults).toEqual([])
      await context.close()
    })

    test('have tables, statements, tabs and staged changes of their own', async () => {
      const { context, page } = await open()
      await answerSql(page)
      for (const [path, target] of [
        [pathOf(one), shortOf(one)],
        [`/databases/${id}`, 'database'],
        [pathOf(other), shortOf(other)],
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
        // Only the page of a database asks where a statement runs.
        expect(await page.getByLabel('Run on').count()).toBe(target === 'database' ? 1 : 0)
      }
      await goTo(page, `${pathOf(one)}/sql`)
      await page
        .locator('.cm-content')
        .getByText(`SELECT '${shortOf(one)}'`)
        .waitFor()
      await context.close()
    })

    test('with staged changes are left only after the browser has asked', async () => {
      const { context, page, faults } = await open()
      await answerSql(page)
      await goTo(page, `${pathOf(one)}/tables`)
      await page.getByRole('button', { name: 'Change row 1' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Stage the deletion' }).click()
      await goTo(page, '/')
      const [dialog] = await Promise.all([page.waitForEvent('dialog'), page.close({ runBeforeUnload: true })])
      expect(dialog.type()).toBe('beforeunload')
      await dialog.dismiss()
      expect(faults).toHaveLength(1)
      await context.close()
    })

    test('have logs, measurements and statistics of their own', async () => {
      const { context, page, faults } = await open()
      const asked = new Set<string>()
      const note = (url: string) => asked.add(`${targetOf(url)} ${new URL(url).pathname.split('/').at(-1)}`)
      await page.route('**/logs?**', route => {
        note(route.request().url())
        const logs = [{ timestamp: new Date().toISOString(), level: 'LOG', message: targetOf(route.request().url()) }]
        return route.fulfill({ json: { logs } })
      })
      await page.route('**/metrics?**', route => {
        note(route.request().url())
        const columns = ['time', 'used_bytes', 'size_bytes']
        const values = [[new Date().toISOString(), 2 ** 30, 500 * 2 ** 30]]
        return route.fulfill({ json: { series: [{ name: 'volume', columns, values }] } })
      })
      await page.route('**/queries?**', route => {
        note(route.request().url())
        const numbers = { calls: 1, total_ms: 1, mean_ms: 1, max_ms: 1, share: 1, rows: 1 }
        const text = `SELECT '${targetOf(route.request().url())}'`
        return route.fulfill({ json: { queries: [{ id: '1', role: 'app', text, ...numbers }] } })
      })
      await goTo(page, `${pathOf(one)}/logs`)
      await page.getByText(shortOf(one), { exact: true }).waitFor()
      await goTo(page, `${pathOf(one)}/metrics`)
      await page.getByText('of the whole file system (500 GiB)').waitFor()
      expect(await findings(page)).toEqual([])
      await goTo(page, `${pathOf(one)}/queries`)
      await page.getByRole('button', { name: `SELECT '${shortOf(one)}'` }).waitFor()
      expect([...asked].sort()).toEqual(['logs', 'metrics', 'queries'].map(page => `${shortOf(one)} ${page}`))
      expect(faults).toEqual([])
      await context.close()
    })

    test('show the services that they have, and none of the controls of a database', async () => {
      const { context, page, faults } = await open()
      const mcp = { service_type: 'mcp', state: 'running', uri: 'https://preview.test/mcp', bearer_token: 'secret' }
      await page.route(`**/managed/v1${pathOf(one)}*`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), services: [mcp] } })
      })
      await goTo(page, `${pathOf(one)}/services`)
      await page.getByText(mcp.uri, { exact: true }).waitFor()
      expect(await page.getByRole('heading', { level: 2 }).count()).toBe(1)
      expect(await page.getByRole('button', { name: /^(Add|Change|Remove)/ }).count()).toBe(0)
      await goTo(page, `${pathOf(one)}/logs`)
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
    ])('that is %s says so, and what to do (%j)', async (status, changes, text) => {
      const { context, page, faults } = await open()
      await page.route(`**/managed/v1${pathOf(one)}*`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), status, ...changes } })
      })
      await goTo(page, `${pathOf(one)}/connect`)
      await page.getByText(text).waitFor()
      expect(await page.getByRole('navigation', { name: 'Parts of the branch' }).count()).toBe(
        status === 'available' ? 1 : 0,
      )
      expect(await findings(page)).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    })

    test('show their source and expiry, and follow their deletion', async () => {
      const expires = new Date(Date.now() + 3 * 86_400_000).toISOString()
      const made = { display_name: 'Child', source_branch_id: one, expires_at: expires }
      const child = (await installation.call('POST', `/databases/${id}/branches`, made)).body.id ?? ''
      await expect.poll(() => statusOf(child)).toBe('available')
      const { context, page, faults } = await open()
      await goTo(page, `${pathOf(child)}/connect`)
      await page.locator('.page-head').getByText('expires in 3 days').waitFor()
      await page
        .locator('.page-head')
        .getByRole('link', { name: nameOf(one) })
        .click()
      await heading(page, nameOf(one)).waitFor()
      await page.goBack()
      await heading(page, 'Child').waitFor()
      await installation.call('DELETE', pathOf(child))
      await page.getByText(/The branch is being deleted|There is no branch with this id/).waitFor()
      await goTo(page, `${pathOf('00000000-0000-4000-8000-000000000000')}/sql`)
      await heading(page, 'There is no branch with this id').waitFor()
      expect(await findings(page)).toEqual([])
      await page.getByRole('link', { name: 'All branches of the database' }).click()
      await page.getByRole('link', { name: nameOf(one) }).waitFor()
      expect(faults).toEqual([])
      await context.close()
    })

    test('with a name that another has are announced, and a refused name is shown at its field', async () => {
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
