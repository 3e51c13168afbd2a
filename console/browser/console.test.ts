/** Tests the built console in a browser, against an API in this process. Opens every page with hostile texts. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { reconcile } from '../../api/testing/harness.ts'
import { canRun, openBrowser } from './chromium.ts'
import { fill, type Installation, startInstallation } from './installation.ts'
import { extent, findings, goTo, logIn as logInWith, openConsole } from './pages.ts'

const runs = canRun()
/** A text that calls `hit()` if the page runs it. A display name can have at most 25 characters. */
const hostile = '<img src=x onerror=hit()>'
const tabs = [
  'connect',
  'branches',
  'backups',
  'access',
  'services',
  'sql',
  'tables',
  'logs',
  'metrics',
  'queries',
  'tasks',
  'settings',
]
const branchTabs = ['connect', 'services', 'sql', 'tables', 'logs', 'metrics', 'queries']
/** The paths of all pages. `go` replaces `ID` by the id of the database and `BRANCH` by the id of its branch. */
const pages = [
  ...['/', '/new', '/operations', '/audit', '/nowhere'],
  ...tabs.map(tab => `/databases/ID/${tab}`),
  ...branchTabs.map(tab => `/databases/ID/branches/BRANCH/${tab}`),
]

let installation: Installation
let browser: Browser
let id: string
let branchId: string
beforeAll(async () => {
  if (!runs) return
  installation = await startInstallation()
  ;({ id, branchId } = await fill(installation, hostile))
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await installation?.stop()
})

const open = (options?: Parameters<typeof openConsole>[2]) => openConsole(browser, installation.address, options)
const logIn = async (page: Page, token?: string) => logInWith(page, token ?? (await installation.token()))
const go = (page: Page, path: string) => goTo(page, path.replace('ID', id).replace('BRANCH', branchId))

async function listed(): Promise<object[]> {
  const headers = { authorization: `Bearer ${await installation.token()}` }
  const answer = await fetch(`${installation.address}/managed/v1/databases`, { headers })
  return answer.json() as Promise<object[]>
}

if (!runs) test.skip('the console in a browser: needs Chromium and the packages of console/', () => {})
else
  describe('the console in a browser', () => {
    test.each(['light', 'dark'] as const)(
      'every page is accessible, and runs no text from the server as code (%s)',
      async theme => {
        const { context, page, faults } = await open({ colorScheme: theme })
        expect(await findings(page)).toEqual([])
        await logIn(page)
        for (const path of pages) {
          await go(page, path)
          expect(await findings(page), path).toEqual([])
        }
        await go(page, '/')
        await page.keyboard.press('Control+k')
        await page.getByRole('combobox').waitFor()
        expect(await findings(page), 'the palette').toEqual([])
        expect(faults).toEqual([])
        await context.close()
      },
    )

    test('shows names from the server as text', async () => {
      const { context, page } = await open()
      await logIn(page)
      await page.getByText(hostile).filter({ visible: true }).first().waitFor()
      await go(page, '/databases/ID/connect')
      await page.getByRole('heading', { name: hostile }).waitFor()
      expect(await page.locator('img').count()).toBe(0)
      await context.close()
    })

    test('no page is wider than 360 px', async () => {
      const { context, page } = await open({ width: 360 })
      await logIn(page)
      for (const path of pages) {
        await go(page, path)
        expect((await extent(page)).width, path).toBe(360)
        if (path.includes('ID'))
          await expect.poll(async () => (await extent(page)).tabEnd, { message: path }).toBeLessThan(361)
      }
      await context.close()
    })

    test('shows why the API refuses a token, and keeps a valid token only in memory', async () => {
      const { context, page } = await open()
      await page.getByLabel('Access token').fill('not.a.token')
      await page.keyboard.press('Enter')
      await page.getByRole('alert').waitFor()
      const token = await installation.token()
      await logIn(page, token)
      const stored = await page.evaluate(
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
      )
      expect(stored).toBe('[{},{},""]')
      expect(page.url()).not.toContain(token)
      await page.reload()
      await page.getByLabel('Access token').waitFor()
      await context.close()
    })

    test('the palette opens a database by keyboard alone', async () => {
      const { context, page } = await open()
      await logIn(page)
      await page.getByRole('link', { name: 'reports', exact: true }).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill('repo')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'reports' }).waitFor()
      expect(page.url()).toMatch(/\/console\/databases\/[\w-]+\/connect$/)
      await context.close()
    })

    test('creates a database, allows this address, creates a branch, and deletes the database', async () => {
      const { context, page, faults } = await open()
      await logIn(page)
      await page.getByRole('link', { name: 'New database' }).click()
      await page.getByRole('button', { name: 'Create the database' }).click()
      await page.getByText('Enter a name.').waitFor()
      await page.getByLabel('Name', { exact: true }).fill('fruit')
      await page.getByRole('button', { name: 'Create the database' }).click()
      await page.getByRole('heading', { name: 'fruit' }).waitFor()
      await page.locator('.page-head').getByText('Available').waitFor()
      await page.getByRole('link', { name: 'Open the allowlist' }).click()
      await page.getByRole('button', { name: 'Add my address (127.0.0.1)' }).click()
      await page.getByRole('button', { name: 'Save the allowlist' }).click()
      await page.getByText('Restricted').waitFor()
      // The stand-in completes a database only once, so the test completes the change.
      await reconcile(installation.harness.cluster, 'acme', 'fruit')
      await page.getByRole('link', { name: 'Branches' }).click()
      await page.getByRole('button', { name: 'New branch' }).click()
      const dialog = page.getByRole('dialog')
      expect(await findings(page), 'a dialog').toEqual([])
      await dialog.getByLabel('Display name').fill('Preview')
      await dialog.getByRole('button', { name: 'New branch' }).click()
      await page.getByRole('row', { name: 'Preview' }).getByText('Available').waitFor()
      await page.getByRole('link', { name: 'Settings' }).click()
      await page.getByRole('button', { name: 'Delete the database' }).click()
      await dialog.getByText('1 branch with its data').waitFor()
      const confirm = dialog.getByRole('button', { name: 'Delete the database' })
      expect(await confirm.isDisabled()).toBe(true)
      await dialog.getByLabel('Type fruit to confirm').fill('fruit')
      await confirm.click()
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      expect(faults).toEqual([])
      await context.close()
    })

    test('the SQL editor draws only the visible rows, and shows values as text', async () => {
      const { context, page, faults } = await open()
      const rows = Array.from({ length: 50_000 }, (_, index) => [String(index), index === 0 ? hostile : null])
      const lines = [
        {
          type: 'columns',
          statement: 0,
          columns: [
            { name: hostile, type: 23 },
            { name: 'b', type: 25 },
          ],
        },
        { type: 'rows', statement: 0, rows },
        { type: 'complete', statement: 0, command: 'SELECT', row_count: rows.length, ms: 5, more: false },
        { type: 'error', statement: 1, sqlstate: '42P01', message: hostile, position: 3 },
      ]
      const body = lines.map(line => `${JSON.stringify(line)}\n`).join('')
      let sent = ''
      await page.route('**/sql', route => {
        if (route.request().postData()?.includes('pg_class') !== true) sent = route.request().postData() ?? ''
        return route.fulfill({ body, contentType: 'application/x-ndjson' })
      })
      await logIn(page)
      await go(page, '/databases/ID/sql')
      await page.locator('.cm-content').click()
      await page.keyboard.type("SELECT '😀';\nSELECT 2")
      await page.keyboard.press('Control+Enter')
      await page.getByText('50000 rows in 5 ms').waitFor()
      expect(JSON.parse(sent)).toMatchObject({ text: 'SELECT 2', mode: 'read' })
      await page.getByRole('cell', { name: hostile }).waitFor()
      expect(await page.locator('.grid tr').count()).toBeLessThan(80)
      await page.locator('.grid-frame').focus()
      await page.keyboard.press('End')
      await page.getByRole('cell', { name: '50000', exact: true }).waitFor()
      expect(await findings(page)).toEqual([])
      await page.getByRole('button', { name: 'Result 2 (failed)' }).click()
      await page.getByRole('alert').getByText(hostile).waitFor()
      // The position in the editor, in characters: 12 before the statement, and 3 in it.
      await page.getByText('SQLSTATE 42P01, at character 15').waitFor()
      expect(faults).toEqual([])
      await context.close()
    })

    test('edits in the SQL editor do not violate the content security policy', async () => {
      const { context, page, faults } = await open()
      await page.route('**/sql', route => route.fulfill({ body: '', contentType: 'application/x-ndjson' }))
      await logIn(page)
      await go(page, '/databases/ID/sql')
      const content = page.locator('.cm-content')
      const steps: [string, () => Promise<void>, string][] = [
        ['type', () => page.keyboard.type("SELECT 1, 'two', three FROM four"), "SELECT 1, 'two', three FROM four"],
        [
          'replace a word by a letter',
          async () => {
            await page.keyboard.press('Control+Home')
            await page.keyboard.press('Control+Shift+ArrowRight')
            await page.keyboard.type('x')
          },
          "x 1, 'two', three FROM four",
        ],
        [
          'replace several tokens by a letter',
          async () => {
            await page.keyboard.press('Control+Home')
            for (let count = 0; count < 8; count++) await page.keyboard.press('Shift+ArrowRight')
            await page.keyboard.type('y')
          },
          "yo', three FROM four",
        ],
        [
          'replace all text by typing',
          async () => {
            await page.keyboard.press('Control+A')
            await page.keyboard.type('SELECT 9')
          },
          'SELECT 9',
        ],
        [
          'replace all text at once',
          async () => {
            await page.keyboard.press('Control+A')
            await page.keyboard.insertText('SELECT 7')
          },
          'SELECT 7',
        ],
        [
          'put a selection in brackets',
          async () => {
            await page.keyboard.press('Control+A')
            await page.keyboard.type('(')
          },
          '(SELECT 7)',
        ],
        ['fill', () => content.fill('SELECT 8'), 'SELECT 8'],
        [
          'delete',
          async () => {
            await page.keyboard.press('Control+A')
            await page.keyboard.press('Backspace')
          },
          '',
        ],
      ]
      await content.click()
      for (const [action, step, text] of steps) {
        await step()
        expect(await page.locator('.cm-line').allTextContents(), action).toEqual([text])
        expect(faults, action).toEqual([])
      }
      await context.close()
    })

    test('saves queries by name in this browser, and opens them', async () => {
      const { context, page, faults } = await open()
      await page.route('**/sql', route => route.fulfill({ body: '', contentType: 'application/x-ndjson' }))
      await logIn(page)
      await go(page, '/databases/ID/sql')
      await page.locator('.cm-content').click()
      await page.keyboard.type('SELECT 42')
      await page.getByRole('button', { name: 'Saved queries' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill(hostile)
      await dialog.getByRole('button', { name: 'Save the query' }).click()
      await dialog.getByRole('button', { name: `Delete ${hostile}` }).waitFor()
      expect(await findings(page)).toEqual([])
      await dialog.getByRole('button', { name: 'Close' }).click()
      await page.getByRole('button', { name: 'Close query 1' }).click()
      await page.getByRole('button', { name: 'Saved queries' }).click()
      await dialog.getByRole('button', { name: hostile, exact: true }).click()
      await page.locator('.cm-content').getByText('SELECT 42').waitFor()
      await page.getByRole('button', { name: 'Saved queries' }).click()
      await dialog.getByRole('button', { name: `Delete ${hostile}` }).click()
      await dialog.getByText('No query is saved').waitFor()
      expect(await page.evaluate('localStorage.length')).toBe(0)
      expect(faults).toEqual([])
      await context.close()
    })

    test('shows why a service failed, and saves one service without a change of the others', async () => {
      const { context, page, faults } = await open()
      const services = [
        { service_type: 'mcp', service_id: 'a', mcp_config: { allow_writes: false, init_tokens: hostile } },
        { service_type: 'rest', state: 'failed', message: hostile, uri: 'https://x/rest', rest_config: { db_pool: 5 } },
      ]
      let sent: unknown
      await page.route(`**/managed/v1/databases/${id}`, async route => {
        if (route.request().method() === 'PATCH') sent = JSON.parse(route.request().postData() ?? '')
        const answer = await route.fetch({ method: 'GET' })
        return route.fulfill({ json: { ...((await answer.json()) as object), services } })
      })
      await logIn(page)
      await go(page, '/databases/ID/services')
      await page.getByText(hostile).filter({ visible: true }).first().waitFor()
      await page.getByText('Try it: REST').click()
      await page.getByLabel('Table, view or function').fill(`it's ${hostile}`)
      await page.getByLabel('The command').getByText("it'\\''s%20%3Cimg").waitFor()
      expect(await findings(page), 'try it').toEqual([])
      await page.getByRole('button', { name: 'Change Tools' }).click()
      await page.getByLabel('Allow writes').check()
      await page.getByRole('button', { name: 'Add Answers' }).click()
      await page.getByRole('button', { name: 'Add an item: Pipelines' }).click()
      expect(await findings(page)).toEqual([])
      await page.getByRole('button', { name: 'Save the settings' }).click()
      await page.getByText('the settings are being applied').waitFor()
      expect(sent).toEqual({
        services: [
          { service_type: 'rest', rest_config: { db_pool: 5 } },
          { service_type: 'mcp', mcp_config: { allow_writes: true }, ip_allowlist: { rules: [] } },
        ],
      })
      expect(faults).toEqual([])
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      await context.close()
    })

    test('sends a request to a service only by the Send button, and shows every answer as text', async () => {
      const { context, page, faults } = await open()
      const services = [
        { service_type: 'mcp', service_id: 'a', uri: 'https://x/mcp', mcp_config: { allow_writes: true } },
        { service_type: 'rest', service_id: 'b', uri: 'https://x/rest', rest_config: { db_pool: 5 } },
        { service_type: 'rag', service_id: 'c', uri: 'https://x/rag', rag_config: { pipelines: [{ name: 'docs' }] } },
      ]
      await page.route(`**/managed/v1/databases/${id}`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), services } })
      })
      const sent: unknown[] = []
      const answers: { status?: number; json: unknown }[] = []
      await page.route('**/services/*/try', route => {
        const request = route.request()
        sent.push([new URL(request.url()).pathname.split('/').at(-2), JSON.parse(request.postData() ?? '')])
        const next = answers.shift()
        // Without an answer, the request stays open until the user cancels it.
        return next === undefined ? undefined : route.fulfill(next)
      })
      const queueAnswer = (body: unknown, more: object = {}) =>
        void answers.push({
          json: {
            ...{ status: 200, content_type: hostile, truncated: false, milliseconds: 12 },
            body: typeof body === 'string' ? body : JSON.stringify(body),
            ...more,
          },
        })
      await logIn(page)
      await go(page, '/databases/ID/services')

      await page.getByText('Try it: REST').click()
      const rest = page.getByRole('region', { name: 'REST API (rest)', exact: true })
      await rest.getByLabel('Method').selectOption('DELETE')
      await rest.getByLabel('Table, view or function').fill(hostile)
      const jwt = rest.getByLabel('JWT (optional)')
      await jwt.fill('x.y.z')
      await jwt.press('Enter')
      expect(sent).toEqual([])
      queueAnswer([{ id: hostile }])
      await rest.getByRole('button', { name: 'Send' }).focus()
      await page.keyboard.press('Enter')
      await rest.getByLabel('The answer').getByText(`"id": "${hostile}"`).waitFor()
      await rest.getByText(`12 ms, ${hostile}`).waitFor()
      const path = encodeURIComponent(hostile)
      expect(sent.splice(0)).toEqual([['rest', { method: 'DELETE', path, query: 'limit=10', token: 'x.y.z' }]])
      expect(await findings(page), 'rest').toEqual([])
      queueAnswer(hostile, { status: 404, truncated: true })
      await rest.getByRole('button', { name: 'Send' }).click()
      await rest.getByText('Check the path').waitFor()
      await rest.getByText('Its beginning is shown').waitFor()
      answers.push({ status: 403, json: { code: 403, message: `turned off (api.sql.enabled) ${hostile}` } })
      await rest.getByRole('button', { name: 'Send' }).click()
      await rest.getByRole('alert').getByText(`turned off (api.sql.enabled) ${hostile}`).waitFor()
      await rest.getByRole('button', { name: 'Send' }).click()
      await rest.getByText('Waiting for the answer').waitFor()
      const failed = page.waitForEvent('requestfailed', request => request.url().endsWith('/services/rest/try'))
      await rest.getByRole('button', { name: 'Cancel', exact: true }).click()
      await failed
      await rest.getByText('Cancelled.').waitFor()
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Send')
      sent.length = 0

      await page.getByText('Try it: Tools').click()
      const mcp = page.getByRole('region', { name: 'Tools for language models (mcp)', exact: true })
      await mcp.getByLabel('Arguments (JSON)').fill('[]')
      await mcp.getByText('This is not a JSON object').waitFor()
      expect(await mcp.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
      await mcp.getByLabel('Arguments (JSON)').fill('{"a": 1}')
      queueAnswer({
        content: [
          { type: hostile, text: hostile },
          { type: 'text', text: hostile },
        ],
        isError: true,
      })
      await mcp.getByRole('button', { name: 'Send' }).click()
      await mcp.getByText('The tool reports an error').waitFor()
      await mcp.getByLabel('Part 2 of the result (text)').getByText(hostile).waitFor()
      expect(sent.splice(0)).toEqual([['mcp', { tool: 'query_database', arguments: { a: 1 } }]])

      await page.getByText('Try it: Answers').click()
      const rag = page.getByRole('region', { name: 'Answers from documents (rag)', exact: true })
      expect(await rag.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
      await rag.getByLabel('Question').fill('Why?')
      const content = `https://untrusted.test ${hostile}`
      queueAnswer({ answer: `Because. ${hostile}`, sources: [{ id: hostile, score: 0.5, content }] })
      await rag.getByRole('button', { name: 'Send' }).click()
      await rag.getByText(`Because. ${hostile}`).waitFor()
      await rag.getByRole('listitem').getByText(content).waitFor()
      expect(
        await rag
          .getByRole('region', { name: /^Answer of Answers/ })
          .locator('a, img')
          .count(),
      ).toBe(0)
      expect(sent).toEqual([['rag', { pipeline: 'docs', query: 'Why?' }]])
      expect(await findings(page), 'all').toEqual([])

      await page.route(`**/managed/v1/databases/${id}/branches/*`, async route => {
        const answer = await route.fetch()
        return route.fulfill({ json: { ...((await answer.json()) as object), services } })
      })
      await go(page, '/databases/ID/branches/BRANCH/services')
      await page.getByText('Try it: REST').click()
      queueAnswer([])
      const ofBranch = page.waitForRequest(request => request.url().endsWith('/services/rest/try'))
      await rest.getByRole('button', { name: 'Send' }).click()
      expect((await ofBranch).url()).toMatch(/\/databases\/[^/]+\/branches\/[^/]+\/services\/rest\/try$/)
      await rest.getByText('Status 200').waitFor()
      expect(faults).toEqual([])
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      await context.close()
    })

    test('searches a log, draws only the visible lines, and shows them as text', async () => {
      const { context, page, faults } = await open()
      const logs = Array.from({ length: 1000 }, (_, index) => {
        const timestamp = new Date(Date.UTC(2026, 0, 1) - index * 1000).toISOString()
        return { timestamp, level: index === 500 ? 'ERROR' : 'LOG', message: `${hostile} ${index}`, detail: hostile }
      })
      await page.route('**/logs?**', route => route.fulfill({ json: { logs } }))
      await logIn(page)
      await go(page, '/databases/ID/logs')
      await page.getByText(`${hostile} 0`, { exact: true }).waitFor()
      expect(await page.locator('.log-line').count()).toBeLessThan(60)
      expect(await findings(page)).toEqual([])
      await page.getByLabel('Severity').selectOption('error')
      await page.getByText('1 of 1000 lines').waitFor()
      await page.getByText(`${hostile} 500`, { exact: true }).waitFor()
      await page.getByRole('searchbox', { name: 'Search' }).fill('absent')
      await page.getByText('No line matches.').waitFor()
      expect(faults).toEqual([])
      await context.close()
    })

    test('plots metrics, with operations as events', async () => {
      const { context, page, faults } = await open()
      const values = Array.from({ length: 50 }, (_, index) => [
        ...[new Date(Date.now() - (50 - index) * 60_000).toISOString(), index, null, 0.5],
      ])
      const series = [{ name: hostile, columns: ['time', hostile, 'unknown', 'hit_ratio'], values }]
      await page.route('**/metrics?**', route => route.fulfill({ json: { series } }))
      await logIn(page)
      await go(page, '/databases/ID/metrics')
      await page.locator('.plot canvas').first().waitFor()
      expect(await page.locator('.plot').count()).toBe(2)
      await page.getByText('hit ratio: 50.0 %').waitFor()
      await page.locator('#events ~ ul').getByText('Back up').first().waitFor()
      expect(await findings(page)).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    })

    test('explains a statement of the statistics with the values that the user enters', async () => {
      const { context, page, faults } = await open()
      const numbers = { calls: 3, total_ms: 1500, mean_ms: 500, max_ms: 700, share: 0.75, rows: 3 }
      const text = `SELECT '${hostile}' WHERE id = $1`
      const queries = [{ id: '1', role: hostile, text, ...numbers }]
      await page.route('**/queries?**', route => route.fulfill({ json: { queries } }))
      let sent: unknown
      await page.route('**/sql', route => {
        sent = JSON.parse(route.request().postData() ?? '')
        const plan = JSON.stringify([{ Plan: { 'Node Type': hostile, 'Plan Rows': 1, 'Total Cost': 2 } }])
        const lines = [
          { type: 'columns', statement: 0, columns: [{ name: 'QUERY PLAN', type: 114 }] },
          { type: 'rows', statement: 0, rows: [[plan]] },
          { type: 'complete', statement: 0, command: 'EXPLAIN', row_count: 1, ms: 1, more: false },
        ]
        const body = lines.map(line => `${JSON.stringify(line)}\n`).join('')
        return route.fulfill({ body, contentType: 'application/x-ndjson' })
      })
      await logIn(page)
      await go(page, '/databases/ID/queries')
      expect(await findings(page)).toEqual([])
      await page.getByRole('button', { name: text }).click()
      await page.getByLabel('Value of $1').fill('7')
      await page.getByRole('button', { name: 'Explain' }).click()
      await page.getByRole('rowheader', { name: hostile }).waitFor()
      expect(sent).toMatchObject({ text, explain: 'plan', mode: 'read', parameters: ['7'] })
      expect(await findings(page)).toEqual([])
      expect(faults).toEqual([])
      await context.close()
    })

    test('stages changes of rows, shows them as SQL, and commits them together', async () => {
      const { context, page, faults } = await open()
      const sent: { text: string; parameters?: string[]; mode: string }[] = []
      const catalog = ['public', hostile, 'r', '5', 'na"me', 'text', 't', 'f', 'f', 'f']
      const complete = { type: 'complete', command: 'COMMIT', row_count: 1, ms: 1, more: false }
      const conflict = 'invalid input syntax for type integer: "not one row but 0"'
      let answers: object[] = []
      await page.route('**/sql', route => {
        const request = JSON.parse(route.request().postData() ?? '')
        const isCatalog = request.text.includes('pg_class')
        if (!isCatalog) sent.push(request)
        const [row, names] = isCatalog
          ? [catalog, catalog]
          : [
              [hostile, '77'],
              ['na"me', 'xmin'],
            ]
        const read = [
          { type: 'columns', statement: 0, columns: names.map(name => ({ name, type: 25 })) },
          { type: 'rows', statement: 0, rows: [row] },
          { ...complete, statement: 0, command: 'SELECT' },
        ]
        const lines = request.mode === 'write' ? answers : read
        const body = lines.map(line => `${JSON.stringify(line)}\n`).join('')
        return route.fulfill({ body, contentType: 'application/x-ndjson' })
      })
      await logIn(page)
      await go(page, '/databases/ID/tables')
      await page.getByRole('cell', { name: hostile }).waitFor()
      await page.getByRole('button', { name: 'Add a filter' }).click()
      await page.getByLabel('Value of filter 1').fill("it's")
      await page.getByRole('button', { name: 'Apply' }).click()
      await page.getByLabel('The statement that reads these rows').getByText('ILIKE').waitFor()
      await page.getByRole('cell', { name: hostile }).waitFor()
      expect(sent.at(-1)).toMatchObject({ mode: 'read', parameters: ["%it's%"] })
      expect(sent.at(-1)?.text).toContain('WHERE "na""me"::text ILIKE $1')

      await page.getByRole('button', { name: 'Change row 1' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('na"me (text)').fill("it's")
      expect(await findings(page), 'the form of a row').toEqual([])
      await dialog.getByRole('button', { name: 'Stage the change' }).click()
      await page.getByRole('button', { name: 'Change row 1 (change staged)' }).waitFor()
      await page.getByRole('button', { name: 'New row' }).click()
      await dialog.getByRole('button', { name: 'Stage the change' }).click()
      await page.getByLabel('The SQL of change 2').getByText('DEFAULT VALUES').waitFor()
      expect(await findings(page), 'staged changes').toEqual([])
      expect(sent.every(({ mode }) => mode === 'read')).toBe(true)

      answers = [
        { ...complete, statement: 0, command: 'BEGIN' },
        { type: 'error', statement: 1, sqlstate: '22P02', message: conflict },
      ]
      await page.getByRole('button', { name: 'Commit 2 changes' }).click()
      await page.getByRole('alert').getByText('Change 1: the row was changed or deleted').waitFor()
      expect(sent.filter(({ mode }) => mode === 'write').map(({ text }) => text)).toEqual([
        expect.stringContaining(`SET "na""me" = 'it''s'\n  WHERE "na""me" = '${hostile}' AND xmin = '77'`),
      ])
      answers = [{ ...complete, statement: 3 }]
      await page.getByRole('button', { name: 'Commit 2 changes' }).click()
      await page.getByText('2 changes committed.').waitFor()
      await page.getByRole('button', { name: 'Change row 1', exact: true }).waitFor()
      expect(await page.getByRole('heading', { name: 'staged' }).count()).toBe(0)
      expect(faults).toEqual([])
      await context.close()
    })

    test('draws only the visible rows of 1,000 databases', async () => {
      const { context, page } = await open()
      const one = (await listed())[0]
      const many = Array.from({ length: 1000 }, (_, index) => {
        return { ...one, id: `id-${index}`, name: `db${String(index).padStart(4, '0')}` }
      })
      await page.route('**/managed/v1/databases?**', route => route.fulfill({ json: many }))
      await logIn(page)
      await page.getByRole('link', { name: 'db0000', exact: true }).waitFor()
      expect(await page.locator('.databases tr').count()).toBeLessThan(80)
      await page.evaluate('scrollTo(0, document.body.scrollHeight)')
      await page.getByRole('link', { name: 'db0999', exact: true }).waitFor()
      expect(await page.locator('.databases tr').count()).toBeLessThan(80)
      await page.getByLabel('Filter databases').fill('db05')
      await page.getByRole('link', { name: 'db0500', exact: true }).waitFor()
      await context.close()
    })
  })
