import { describe, expect, test } from 'vitest'
import { attentionOf } from './attention.ts'
import { bytes, price, quantity, quantityOfBytes, relative, span, statusText, tick, toneOf } from './format.ts'
import { safeUrl } from './safe-url.ts'
import { best } from './search.ts'
import { type SnippetName, snippet, snippetNames, uriOf } from './snippets.ts'
import { treeOf } from './tree.ts'

describe('figures', () => {
  test.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1536, '1.5 KiB'],
    [150 * 1024 ** 2, '150 MiB'],
    [10 * 1024 ** 3, '10.0 GiB'],
  ])('%d bytes are %s', (count, text) => expect(bytes(count)).toBe(text))

  test.each([
    ['10Gi', 10 * 1024 ** 3],
    ['250m', 0.25],
    ['1', 1],
    ['1.5G', 1.5e9],
    ['much', undefined],
    ['', undefined],
    ['1constructor', undefined],
  ])('the quantity %j is %s', (text, value) => expect(quantity(text)).toBe(value))

  test('formats a quantity of bytes with a unit, and does not change other text', () => {
    expect([quantityOfBytes('10Gi'), quantityOfBytes('512Mi'), quantityOfBytes('?')]).toEqual([
      '10 GiB',
      '512 MiB',
      '?',
    ])
  })

  test('formats a price with its currency and interval', () => {
    const priceOf = (price_amount: number, currency: string) =>
      price({ price_amount, currency, billing_interval: 'month' })
    expect([priceOf(1500, 'eur'), priceOf(900, 'jpy'), priceOf(5, 'no currency')]).toEqual([
      '€15.00 / month',
      '¥900 / month',
      '5 no currency / month',
    ])
  })

  test('formats times relative to now', () => {
    const now = 1e12
    expect([0, 30e3, 90e3, 5 * 3600e3, 72 * 3600e3, -60e3].map(ms => relative(now - ms, now))).toEqual([
      ...['just now', '30 s ago', '2 min ago', '5 h ago', '3 days ago', 'in 1 min'],
    ])
    expect(span(1400)).toBe('1 s')
  })

  test('returns an unknown status unchanged, even if it is the name of an object member', () => {
    expect([statusText('available'), statusText('constructor'), toneOf('constructor'), toneOf('failed')]).toEqual([
      ...['Available', 'constructor', 'quiet', 'bad'],
    ])
  })
})

describe('the tree of branches', () => {
  const node = (id: string, parent?: string, created_at = id) => ({ id, parent_branch_id: parent ?? null, created_at })
  const linesOf = (nodes: ReturnType<typeof node>[]) =>
    treeOf(nodes).map(line => `${'-'.repeat(line.depth)}${line.node.id}`)

  test('lists parents before their children, and siblings by age', () => {
    expect(linesOf([node('c', 'a'), node('b'), node('a'), node('d', 'c'), node('e', 'a')])).toEqual([
      ...['a', '-c', '--d', '-e', 'b'],
    ])
  })

  test('a branch whose parent was deleted is a root', () => {
    expect(linesOf([node('b', 'gone'), node('c', 'b')])).toEqual(['b', '-c'])
  })

  test('a branch that is its own parent is a root', () => {
    expect(linesOf([node('a', 'a')])).toEqual(['a'])
  })
})

describe('links', () => {
  test.each([
    ['https://a.example/x', 'https://a.example/x'],
    ['javascript:alert(1)', undefined],
    ['JaVaScRiPt:alert(1)', undefined],
    [' https://a.example', undefined],
    ['data:text/html,x', undefined],
    ['https://', undefined],
    [null, undefined],
  ])('the link for %s is %s', (text, url) => expect(safeUrl(text)).toBe(url))
})

describe('the palette', () => {
  const items = ['shop', 'workshop', 'reports', 'shop / Branches']
  test.each([
    ['', ['shop', 'workshop', 'reports']],
    ['shop', ['shop', 'shop / Branches', 'workshop']],
    ['rpt', ['reports']],
    ['shbr', ['shop / Branches']],
    ['xyz', []],
  ])('%j finds %j', (typed, found) => expect(best(items, text => text, typed, 3)).toEqual(found))
})

test('a time axis shows times of day, and the date at midnight', () => {
  expect(tick(new Date(2026, 10, 27, 20, 30).getTime())).toBe('20:30')
  expect(tick(new Date(2026, 10, 27).getTime())).toBe('27 Nov')
})

describe('conditions that the API reports', () => {
  const database = { id: '1', name: 'shop', status: 'available', ip_allowlist: { rules: [1], state: 'restricted' } }
  const problem = (condition: string) => ({ condition, reason: 'Reason', message: `why ${condition}` })
  const found = (changes: object) =>
    attentionOf([{ ...database, ...changes }]).map(({ tone, text, what }) => [tone, text, what])

  test('are listed in plain text, with the message of the API', () => {
    const attention = [problem('RestartPending'), problem('BackupsReady'), problem('constructor')]
    expect(found({ attention })).toEqual([
      ['bad', 'shop: backups have a problem.', 'why BackupsReady'],
      ['bad', 'shop: constructor.', 'why constructor'],
      ['warning', 'shop: a change waits for the next restart.', 'why RestartPending'],
    ])
  })

  test('are omitted if a service message is listed; the condition Ready gives the cause of a failure', () => {
    const services = [{ service_type: 'rest', state: 'failed', message: 'no port' }]
    const attention = [problem('ServicesReady'), problem('Ready')]
    expect(found({ status: 'failed', services, attention })).toEqual([
      ['bad', 'shop has failed and needs your action.', 'why Ready'],
      ['bad', 'The rest service of shop has failed: no port', ''],
    ])
    expect(found({ attention: [problem('ServicesReady')] })).toHaveLength(1)
  })
})

describe('attention', () => {
  const database = { id: '1', name: 'shop', status: 'available', ip_allowlist: { rules: [{}], state: 'restricted' } }
  const texts = (changes: object) => attentionOf([{ ...database, ...changes }]).map(({ text }) => text)

  test('is empty for a healthy database', () => expect(texts({})).toEqual([]))

  test.each([
    [{ status: 'failed' }, 'shop has failed and needs your action.'],
    [{ status: 'degraded' }, 'shop has a problem, and Espalier keeps trying to fix it.'],
    [{ ip_allowlist: { rules: [], state: 'closed' } }, 'shop accepts no connections: its allowlist is empty.'],
    [{ ip_allowlist: { rules: [{}], state: 'open' } }, 'shop accepts connections from every address.'],
    [{ storage_used: 90, storage: { volume_size: '100' } }, 'The volume of shop is 90 % full.'],
    [{ services: [{ service_type: 'rest', state: 'failed' }] }, 'The rest service of shop has failed.'],
    [{ import: { status: 'failed', error: 'no route' } }, 'The import into shop failed: no route'],
  ])('of %j is %j', (changes, text) => expect(texts(changes)).toEqual([text]))

  test('lists errors before warnings', () => {
    const found = attentionOf([
      { ...database, ip_allowlist: { rules: [] } },
      { ...database, id: '2', name: 'b', status: 'failed' },
    ])
    expect(found.map(({ databaseId }) => databaseId)).toEqual(['2', '1'])
  })
})

describe('snippets', () => {
  const connection = {
    ...{ username: 'app', password: `p'"\\$@/ %`, host: 'shop.example.com', port: 15432, database: 'app' },
    ca: 'espalier-ca.pem',
  }

  test('the URI encodes the password', () => {
    const url = new URL(uriOf(connection))
    expect([decodeURIComponent(url.password), url.host, url.pathname]).toEqual([
      ...[connection.password, 'shop.example.com:15432', '/app'],
    ])
    expect(uriOf({ ...connection, host: '::1' })).toContain('@[::1]:15432')
  })

  test('escapes quotes in a password', () => {
    expect(snippet('env', connection)).toContain(`PGPASSWORD='p'\\''"\\$@/ %'`)
    expect(snippet('node', connection)).toContain(`password: ${JSON.stringify(connection.password)}`)
  })

  /** The settings with which each program verifies the server's certificate against the CA file. */
  const verification: Record<SnippetName, RegExp> = {
    psql: /sslmode=verify-full&sslrootcert=espalier-ca\.pem/,
    env: /^PGSSLMODE=verify-full\nPGSSLROOTCERT='espalier-ca\.pem'$/m,
    // Prisma accepts every certificate unless the URL contains sslaccept=strict.
    prisma: /sslmode=require&sslaccept=strict&sslcert=espalier-ca\.pem/,
    node: /ssl: \{ ca: readFileSync\("espalier-ca\.pem"/,
    python: /sslmode="verify-full",\n {4}sslrootcert="espalier-ca\.pem"/,
    jdbc: /sslmode=verify-full&sslrootcert=espalier-ca\.pem/,
    go: /sslmode=verify-full&sslrootcert=espalier-ca\.pem/,
  }

  test.each(snippetNames)('%s verifies the server', name => {
    expect(snippet(name, connection)).toMatch(verification[name])
    expect(snippet(name, connection)).not.toContain('rejectUnauthorized')
  })

  test('a command line contains no password', () => {
    const secret = { ...connection, password: 'secret' }
    expect(snippet('psql', secret)).toBe(
      "psql 'postgresql://app@shop.example.com:15432/app?sslmode=verify-full&sslrootcert=espalier-ca.pem'",
    )
  })
})
