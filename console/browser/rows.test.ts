/**
 * Tests pages that read and change rows of a real Postgres. `make console-screenshots` runs this file, and saves the
 * images of the README.
 */
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type SqlDatabase, startSqlDatabase } from '../../api/sql/testing/database.ts'
import { token } from '../../api/testing/harness.ts'
import { canRun, openBrowser } from './chromium.ts'
import { dist } from './installation.ts'

const runs = process.env.ESPALIER_SOAK === '1' && canRun()
/** The directory for images. If it is undefined, the tests save no images. */
const directory = process.env.ESPALIER_SCREENSHOTS

const schema = `CREATE TABLE fruit (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, price numeric(8, 2), origin jsonb);
INSERT INTO fruit (name, price, origin) VALUES ('apple', 1.20, '{"country": "AT"}'), ('pear', 1.80, NULL), ('quince', NULL, '{"country": "PT"}'),
  ('granny''s best', 2.40, NULL), ('apricot', 3.10, '{"country": "IT"}'), ('cherry', 6.90, NULL);
CREATE TABLE notes (text text); INSERT INTO notes VALUES ('kept');
CREATE VIEW cheap AS SELECT * FROM fruit WHERE price < 2`

let database: SqlDatabase
let browser: Browser
beforeAll(async () => {
  if (!runs) return
  database = await startSqlDatabase({ consoleDirectory: dist })
  await database.as('app', schema)
  await database.as('app', 'ANALYZE')
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await database?.stop()
})

async function open(path: string): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1200, height: 940 },
    colorScheme: 'light',
    reducedMotion: 'reduce',
  })
  const page = await context.newPage()
  await page.goto(new URL(`/console/databases/${database.id}/${path}`, database.url).href)
  await page.getByLabel('Access token').fill(await token({ exp: Math.floor(Date.now() / 1000) + 3600 }))
  await page.keyboard.press('Enter')
  await page.waitForSelector('.shell')
  return page
}

async function saveImage(page: Page, name: string): Promise<void> {
  if (directory === undefined) return
  await page.evaluate('document.activeElement.blur()')
  await page.screenshot({ path: join(directory, `${name}.png`) })
}

const names = async () => (await database.as('app', 'SELECT name FROM fruit ORDER BY id')).map(({ name }) => name)

if (!runs) test.skip('rows of a real Postgres in a browser: needs ESPALIER_SOAK=1 and Chromium', () => {})
else
  describe('rows of a real Postgres in a browser', () => {
    test('are filtered, changed and committed; a conflict commits nothing', async () => {
      const page = await open('tables')
      const dialog = page.getByRole('dialog')
      await page.getByLabel('Table', { exact: true }).selectOption({ label: 'fruit' })
      await page.getByRole('button', { name: 'Add a filter' }).click()
      await page.getByLabel('Column of filter 1').selectOption('name')
      await page.getByLabel('Value of filter 1').fill('AP')
      await page.getByRole('button', { name: 'Apply' }).click()
      await page.getByText('2 rows in').waitFor()

      await page.getByRole('button', { name: 'Change row 1' }).click()
      await dialog.getByLabel('name (text)').fill("it's an apple")
      await dialog.getByRole('button', { name: 'Stage the change' }).click()
      await page.getByRole('button', { name: 'Change row 2' }).click()
      await dialog.getByRole('button', { name: 'Stage the deletion' }).click()
      await page.getByRole('button', { name: 'New row' }).click()
      await dialog.getByLabel('name (text)').fill('plum')
      await dialog.getByRole('button', { name: 'Stage the change' }).click()
      const before = await names()
      await database.as('app', `UPDATE fruit SET price = 9 WHERE name = 'apple'`)
      await page.getByRole('button', { name: 'Commit 3 changes' }).click()
      await page.getByText('Change 1: the row was changed or deleted after the page read it.').waitFor()
      expect(await names()).toEqual(before)

      await page.getByRole('button', { name: 'Change row 1' }).click()
      expect(await dialog.getByLabel('price (numeric(8,2))').inputValue()).toBe('9.00')
      await dialog.getByRole('button', { name: 'Stage the change' }).click()
      await page.getByRole('button', { name: 'Commit 3 changes' }).click()
      await page.getByText('3 changes committed.').waitFor()
      expect(await names()).toEqual(["it's an apple", 'pear', 'quince', "granny's best", 'cherry', 'plum'])
      await page.context().close()
    })

    test('are read only in a view or without a primary key, and the page explains why', async () => {
      const page = await open('tables')
      await page.getByLabel('Table', { exact: true }).selectOption({ label: 'notes' })
      await page.getByText('This table has no primary key').waitFor()
      await page.getByRole('cell', { name: 'kept' }).waitFor()
      expect(await page.getByRole('button', { name: /Change row|New row/ }).count()).toBe(0)
      await page.getByLabel('Table', { exact: true }).selectOption({ label: 'cheap' })
      await page.getByText('Rows of views and foreign tables are read-only on this page.').waitFor()
      await page.context().close()
    })

    test('are shown in the images of the documentation', async () => {
      const tables = await open('tables')
      await tables.getByLabel('Table', { exact: true }).selectOption({ label: 'fruit' })
      await tables.getByRole('button', { name: 'Change row 2' }).click()
      await tables.getByRole('dialog').getByLabel('price (numeric(8,2))').fill('1.95')
      await tables.getByRole('dialog').getByRole('button', { name: 'Stage the change' }).click()
      await tables.getByRole('button', { name: 'Commit 1 change' }).scrollIntoViewIfNeeded()
      await saveImage(tables, 'tables')
      await tables.context().close()
      const sql = await open('sql')
      await sql.locator('.cm-content').click()
      await sql.keyboard.insertText(
        `SELECT name, price, origin ->> 'country' AS country\nFROM fruit ORDER BY price DESC NULLS LAST`,
      )
      await sql.keyboard.press('Control+Enter')
      await sql.getByText(/rows in \d+ ms/).scrollIntoViewIfNeeded()
      await saveImage(sql, 'sql')
      await sql.context().close()
    })
  })
