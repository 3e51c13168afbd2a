/** Prompts, resources and tools from a file: errors in the file, and the definitions' behaviour on a real Postgres. */
import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ConfigurationError } from '../../configuration/errors.ts'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { Durations } from '../../postgres/durations.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { createCatalogue } from '../catalogue/index.ts'
import { readMcpSettings } from '../configuration/index.ts'
import type { DatabaseSettings, HttpSettings, McpSettings } from '../configuration/types.ts'
import { createEntries } from '../database/entries.ts'
import { createDatabaseAccess } from '../database/index.ts'
import { type McpService, startMcp } from '../index.ts'
import { databaseOf } from '../testing/calls.ts'
import { at, modern, post, call as rpc, textOf } from '../testing/rpc.ts'
import { createTools } from '../tools/index.ts'
import { readDefinitions } from './read.ts'
import { reservedToolNames } from './reserved.ts'
import { checkStatements } from './statements.ts'

const definitions = `
prompts:
  - name: look-at
    description: Looks at a table
    arguments:
      - { name: table, description: Which, required: true }
      - { name: deep, type: boolean }
    messages:
      - role: user
        content: { type: text, text: "Look at {{table}}, deep: {{ deep }}." }
      - role: assistant
        content: { type: resource, uri: "custom://notes/{{table}}", mimeType: text/plain, text: "Notes of {{table}}" }
      - role: user
        content: { type: image, data: aGVsbG8=, mimeType: image/png }
resources:
  - { uri: custom://people, name: People, description: All of them, type: sql, sql: "SELECT id, name FROM people ORDER BY id" }
  - { uri: custom://many, name: Many, type: sql, sql: "SELECT n, repeat('x', 50) FROM generate_series(1, 5000) AS n" }
  - { uri: custom://gone, name: Gone, type: sql, sql: "SELECT * FROM gone" }
  - { uri: custom://plan, name: Plan, type: static, data: { rooms: [1, 2], open: true } }
  - { uri: custom://motto, name: Motto, type: static, mimeType: text/plain, data: "Be brief." }
tools:
  - name: find_people
    description: People by name
    type: sql
    input_schema:
      type: object
      properties:
        name: { type: string, description: Part of it, maxLength: 100 }
        most: { type: integer }
        tags: { type: array, items: { type: string } }
      required: [name]
    sql: |
      -- who
      SELECT id, name, $3::jsonb AS tags FROM people WHERE name LIKE '%' || $1 || '%' AND id <= coalesce($2, 100) ORDER BY id;
  - { name: add_person, type: sql, sql: "INSERT INTO people VALUES ($1, $2) RETURNING id", input_schema: { properties: { id: { type: integer }, name: { type: string } }, required: [id, name] } }
  - { name: clear_people, type: sql, sql: "DELETE FROM people", input_schema: {} }
  - { name: read_file, type: sql, sql: "SELECT pg_read_file('/etc/passwd')", input_schema: {} }
  - { name: passwords, type: sql, sql: "SELECT rolname, rolpassword FROM pg_authid", input_schema: {} }
  - { name: wait, type: sql, timeout: 200ms, sql: "SELECT count(*) FROM generate_series(1, 1000000000) AS n", input_schema: {} }
  - { name: broken, type: sql, sql: "SELECT no_such_column FROM people", input_schema: {} }
  - name: count_by_letter
    type: pl-do
    language: plpgsql
    input_schema: { properties: { letter: { type: string } }, required: [letter] }
    code: |
      DECLARE
        found bigint;
      BEGIN
        SELECT count(*) INTO found FROM people WHERE name LIKE (args->>'letter') || '%';
        result := jsonb_build_object('letter', args->>'letter', 'found', found);
        PERFORM set_config('mcp.tool_result', result::text, true);
      END;
  - name: numbers
    type: pl-func
    language: plpgsql
    returns: TABLE(n integer, square integer)
    input_schema: { properties: { most: { type: integer, minimum: 1, maximum: 5000 } }, required: [most] }
    code: |
      BEGIN
        RETURN QUERY SELECT i, i * i FROM generate_series(1, (args->>'most')::integer) AS i;
      END;
`

const silent = pino({ level: 'silent' })
let postgres: TestPostgres
const services: McpService[] = []
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(`CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL);
    INSERT INTO people VALUES (1, 'Ada'), (2, 'Alan'), (3, E'Tab\there')`)
})
afterAll(async () => {
  for (const service of services) await service.stop()
  await postgres?.stop()
})

async function start(changed: Partial<DatabaseSettings> = {}): Promise<number> {
  const { definitions: custom, problems } = readDefinitions(definitions, 'custom.yaml')
  expect(problems).toEqual([])
  const http: HttpSettings = {
    ...{ host: '127.0.0.1', port: 0, tls: undefined, allowedOrigins: [], trustedProxies: [] },
    authentication: {
      ...{ enabled: false, tokenFile: '', userFile: '', rateLimitWindowMinutes: 1, rateLimitMaximumAttempts: 1 },
      maximumFailedAttemptsBeforeLockout: 0,
    },
  }
  const settings: McpSettings = {
    ...{ http, databases: [databaseOf(postgres, changed)], embedding: undefined, llm: [], knowledgebase: undefined },
    ...{ custom, dataDirectory: '', disabled: new Set(), sealingKey: randomBytes(32), logLevel: 'silent' },
    limits: { resultTokens: 3_000, resultBytes: 8_388_608, requestBytes: 10_485_760 },
    auditStatements: 'reads',
  }
  const service = await startMcp({ settings, http, logger: silent })
  services.push(service)
  return service.address.port
}

async function call(port: number, name: string, args: JsonObject = {}) {
  const answer = await modern(port, 'tools/call', { name, arguments: args }, { capabilities: {} })
  return { text: String(textOf(answer)), isError: at(answer.body, 'result', 'isError') === true, body: answer.body }
}
const tableIn = (text: string) => /\n<(data-\w+)>\n([\s\S]*)\n<\/\1>/.exec(text)?.[2]?.split('\n')

describe('on a read-only database', () => {
  let port: number
  beforeAll(async () => {
    port = await start()
  })

  test("binds a tool's arguments in the order of its properties, and marks rows as data", async () => {
    const found = await call(port, 'find_people', { name: 'A', tags: ['x', "y'"] })
    expect(tableIn(found.text)).toEqual(['id\tname\ttags', `1\tAda\t["x", "y'"]`, `2\tAlan\t["x", "y'"]`])
    expect(tableIn((await call(port, 'find_people', { name: 'A', most: 1 })).text)).toEqual([
      'id\tname\ttags',
      '1\tAda\t\\N',
    ])
    expect(tableIn((await call(port, 'find_people', { name: "' OR true --" })).text)).toEqual(['id\tname\ttags'])
  })

  test('concurrent calls on one connection each return the rows for their own arguments', async () => {
    const short = vi.spyOn(Durations.prototype, 'ofShort').mockReturnValue(0.01)
    onTestFinished(() => short.mockRestore())
    const names = ['Ada', 'Alan', 'nobody', "A'; SELECT", 'x'.repeat(100)]
    const calls = Array.from({ length: 30 }, (_, at) => ({ name: names[at % names.length] ?? '', tags: [String(at)] }))
    const found = await Promise.all(calls.map(args => call(port, 'find_people', args)))
    const ids: Record<string, number> = { Ada: 1, Alan: 2 }
    expect(found.map(({ text }) => tableIn(text)?.slice(1))).toEqual(
      calls.map(({ name, tags }) => (name in ids ? [`${ids[name]}\t${name}\t${JSON.stringify(tags)}`] : [])),
    )
    expect(short).toHaveBeenCalled()
  })

  test('lists a tool with its schema, and refuses arguments that do not match the schema', async () => {
    const { body } = await post(port, rpc('tools/list'))
    const tools = at(body, 'result', 'tools')
    expect(tools).toContainEqual(
      expect.objectContaining({
        ...{ name: 'find_people', description: 'People by name' },
        inputSchema: expect.objectContaining({ required: ['name'], additionalProperties: false }),
        annotations: expect.objectContaining({ readOnlyHint: true }),
      }),
    )
    expect(await call(port, 'find_people', {})).toMatchObject({
      isError: true,
      text: expect.stringContaining('name is required'),
    })
    expect((await call(port, 'find_people', { name: 'A', more: 1 })).text).toContain('more is unknown')
    expect((await call(port, 'find_people', { name: 'A', most: 2 ** 60 })).text).toMatch(/^most: must be from/)
  })

  test.each([
    ['add_person', { id: 9, name: 'x' }, 'This database is read-only here: INSERT writes.'],
    ['clear_people', {}, 'This database is read-only here: DELETE writes.'],
    ['read_file', {}, 'Refused: the function pg_read_file'],
    ['passwords', {}, 'rolpassword'],
    ['count_by_letter', { letter: 'A' }, 'This database is read-only here: DO writes.'],
    ['numbers', { most: 1 }, 'This database is read-only here: CREATE FUNCTION writes.'],
  ])('refuses %s like query_database', async (name, args, reason) => {
    const answer = await call(port, name, args)
    expect([answer.isError, answer.text]).toEqual([true, expect.stringContaining(reason)])
  })

  test('a tool has its own timeout, and reports the position of an error in its statement', async () => {
    expect((await call(port, 'wait')).text).toContain('it took longer than 0.2 s')
    expect((await call(port, 'broken')).text).toMatch(
      /SQLSTATE 42703[\s\S]*LINE 1: SELECT no_such_column FROM people\n {15}\^/,
    )
  })

  test('resources return rows or text, truncated to one result, and report failures', async () => {
    const read = async (uri: string) => {
      const { body } = await post(port, rpc('resources/read', { uri }))
      return at(body, 'result', 'contents', 0)
    }
    expect(await read('custom://people')).toEqual({
      uri: 'custom://people',
      mimeType: 'text/tab-separated-values',
      text: 'id\tname\n1\tAda\n2\tAlan\n3\tTab\\there',
    })
    expect(await read('custom://plan')).toMatchObject({
      mimeType: 'application/json',
      text: '{"rooms":[1,2],"open":true}',
    })
    expect(await read('custom://motto')).toMatchObject({ mimeType: 'text/plain', text: 'Be brief.' })
    expect(at(await read('custom://many'), 'text')).toMatch(/\n\(\d+ rows shown, there are more\)$/)
    expect(at(await read('custom://gone'), 'text')).toMatch(
      /^\{"error":true,"message":"relation \\"gone\\" does not exist/,
    )
    const { body } = await post(port, rpc('resources/list'))
    expect(at(body, 'result', 'resources')).toContainEqual({
      ...{ uri: 'custom://people', name: 'People', description: 'All of them', mimeType: 'text/tab-separated-values' },
    })
    expect((await call(port, 'read_resource', { uri: 'custom://motto' })).text).toContain('Be brief.')
  })

  test('checks the arguments of a prompt, and replaces each placeholder once', async () => {
    const get = async (args: JsonObject) =>
      (await post(port, rpc('prompts/get', { name: 'look-at', arguments: args }))).body
    expect(at(await get({ table: '{{deep}}', deep: 'true' }), 'result', 'messages')).toEqual([
      { role: 'user', content: { type: 'text', text: 'Look at {{deep}}, deep: true.' } },
      {
        role: 'assistant',
        content: {
          type: 'resource',
          resource: { uri: 'custom://notes/{{deep}}', mimeType: 'text/plain', text: 'Notes of {{deep}}' },
        },
      },
      { role: 'user', content: { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' } },
    ])
    expect(at(await get({ table: 't' }), 'result', 'messages', 0, 'content', 'text')).toBe('Look at t, deep: .')
    expect(at(await get({}), 'error', 'code')).toBe(-32602)
    expect(at(await get({ table: 't', deep: 'perhaps' }), 'error', 'data', 'problem')).toBe(
      'deep must be true or false',
    )
    const { body } = await post(port, rpc('prompts/list'))
    expect(at(body, 'result', 'prompts')).toContainEqual(
      expect.objectContaining({ name: 'look-at', description: 'Looks at a table' }),
    )
  })
})

describe('on a writable database', () => {
  test('a tool can write, and asks for confirmation of destructive statements like query_database', async () => {
    const port = await start({ allowWrites: true })
    expect(tableIn((await call(port, 'add_person', { id: 7, name: 'Grace' })).text)).toEqual(['id', '7'])
    expect((await call(port, 'clear_people')).text).toMatch(/^Refused: the statement changes every row/)
    expect((await call(port, 'count_by_letter', { letter: 'A' })).text).toMatch(/^Refused: the statement is DO/)
    const answer = await modern(port, 'tools/call', { name: 'clear_people', arguments: {} })
    expect(at(answer.body, 'result', 'resultType')).toBe('input_required')
    expect((await postgres.run('SELECT count(*)::int FROM people')).rows[0].count).toBe(4)
    await postgres.run('DELETE FROM people WHERE id = 7')
  })

  test('PL/pgSQL code receives its arguments, returns its result, and leaves no functions behind', async () => {
    const port = await start({ allowWrites: true, allowUnconfirmed: true })
    const counted = await call(port, 'count_by_letter', { letter: "A'; $espalier$" })
    expect(tableIn(counted.text)).toEqual([`{"found": 0, "letter": "A'; $espalier$"}`])
    expect(tableIn((await call(port, 'count_by_letter', { letter: 'A' })).text)).toEqual([
      '{"found": 2, "letter": "A"}',
    ])
    expect(tableIn((await call(port, 'numbers', { most: 2 })).text)).toEqual(['n\tsquare', '1\t1', '2\t4'])
    expect((await call(port, 'numbers', { most: 3 })).isError).toBe(false)
    expect((await call(port, 'numbers', { most: 5_000 })).text).toMatch(/Results \(\d+ rows shown of more/)
    // The remaining objects are deleted when the session ends, which is after the response.
    const remaining = async () =>
      (await postgres.run(`SELECT count(*)::int FROM pg_proc WHERE proname LIKE 'espalier%'`)).rows[0].count
    await expect.poll(remaining, { timeout: 10_000 }).toBe(0)
  })
})

describe('a file', () => {
  const problemsOf = (text: string) =>
    readDefinitions(text, 'f').problems.map(
      ({ key, source, rule }) => `${key} ${source.kind === 'file' ? source.line : ''} ${rule}`,
    )

  test('is refused with all errors; each error has its key, its line and its rule', () => {
    expect(
      problemsOf(`prompts:
  - name: bad name
    messages: []
resources:
  - { uri: "pg://system_info", name: x, type: sql }
  - { uri: "custom://a", name: x, type: file }
tools:
  - name: t
    type: pl-do
    language: plperl
    code: x
    input_schema: { properties: { a: { type: text } } }
    timeout: soon
  - { name: count_rows, type: sql, sql: SELECT 1 }
  - { name: t }
more: 1
`),
    ).toEqual([
      'prompts[0].name 2 must be 1 to 64 letters, digits and _ . -',
      'prompts[0].messages 3 must have at least 1 entries',
      'resources[0].uri 5 must be a URI such as custom://name, and must not have the scheme pg',
      'resources[0].sql 5 must be given',
      'resources[1].type 6 must be of one of the known kinds',
      'tools[0].input_schema.properties.a 12 must have a type of JSON Schema',
      'tools[0].timeout 13 must be a time like 500ms, 30s or 5m, from 100 ms to 1h',
      'tools[0].language 10 must be "plpgsql": other languages are not supported',
      'tools[1].name 14 is the name of a tool of the server',
      'tools[1].input_schema 14 must be given',
      'tools[2].type 15 must be of one of the known kinds',
      'the file 1 must not have "more"',
      'tools[2].name 15 is duplicated',
    ])
  })

  const prompt = (more: string) => `prompts: [{ name: p, ${more} }]`
  const tool = (schema: string, name = 't') =>
    `tools: [{ name: ${name}, type: sql, sql: SELECT 1, input_schema: ${schema} }]`
  test.each([
    ['{', 'the file 1 is not YAML'],
    ['a: &x 1\nb: *x', 'b 2 must not be an alias'],
    [
      prompt('messages: [{ role: system, content: { type: text, text: a } }]'),
      'prompts[0].messages[0].role 1 must be one of "user", "assistant"',
    ],
    [
      prompt('messages: [{ role: user, content: { type: text, text: "{{b}}" } }]'),
      'prompts[0].messages[0].content 1 uses {{b}}, which is not among the arguments',
    ],
    [
      `prompts: [{ name: explore-database, messages: [{ role: user, content: { type: text, text: a } }] }]`,
      'prompts[0].name 1 is the name of a prompt of the server',
    ],
    [tool('{}', 'count_rows'), 'tools[0].name 1 is the name of a tool of the server'],
    [tool('{ required: [a] }'), 'tools[0].input_schema.required 1 names a, which is not among the properties'],
    [
      tool('{ properties: { a: { type: string, unknown: 1 } } }'),
      'tools[0].input_schema 1 is not a supported schema: strict mode: unknown keyword: "unknown"',
    ],
    [
      tool('{ properties: { a: { $ref: "#/nowhere" } } }'),
      "tools[0].input_schema 1 is not a supported schema: can't resolve reference #/nowhere",
    ],
    [
      'resources: [{ uri: "a:b", name: x, type: static, data: 1 }, { uri: "a:b", name: y, type: static, data: 2 }]',
      'resources[1].uri 1 is duplicated',
    ],
    [`tools: [${'{},'.repeat(101)}]`, 'tools 1 must have at most 100 entries'],
    [
      `resources: [{ uri: "a:b", name: x, type: static, data: ${'x'.repeat(262_144)} }]`,
      'resources[0].data 1 must have at most 262144 characters',
    ],
    [`#${'x'.repeat(1_048_576)}`, 'the file 1 must have at most 1048576 characters'],
  ])('such as %.90s', (text, problem) => {
    expect(problemsOf(text)).toContainEqual(expect.stringContaining(problem))
  })

  test.each([
    ['SELECT FROM WHERE', 'tools[0].sql (f, line 1) must be one SQL statement'],
    ['SELECT 1; SELECT 2', 'There are 2 statements'],
    ['SELECT $2', 'uses $2, but input_schema has 1 properties'],
    ['COMMIT', 'must not be transaction control'],
  ])('with the statement %s is refused before the server starts', async (sql, problem) => {
    const text = `tools: [{ name: t, type: sql, sql: "${sql}", input_schema: { properties: { a: { type: string } } } }]`
    const { definitions: custom } = readDefinitions(text, 'f')
    await expect(checkStatements(custom)).rejects.toThrow(problem)
    await expect(checkStatements(custom)).rejects.toThrow(ConfigurationError)
  })

  test('with a writing resource or with invalid code is refused, with all errors at once', async () => {
    const { definitions: custom, problems } = readDefinitions(
      `resources: [{ uri: "a:b", name: x, type: sql, sql: DELETE FROM t }]
tools: [{ name: t, type: pl-func, language: plpgsql, code: x, returns: ") int", input_schema: {} }]`,
      'f',
    )
    expect(problems).toEqual([])
    await expect(checkStatements(custom)).rejects.toThrow(
      /tools\[0\]\.code \(f, line 2\) cannot be run: [\s\S]*resources\[0\]\.sql \(f, line 1\) must be a read such as SELECT, but is DELETE/,
    )
  })

  test('has its path in a key or a variable, and its errors are reported with other configuration errors', () => {
    const read = (file: string, environment: Record<string, string> = {}) =>
      readMcpSettings({
        file: { path: 'mcp.yaml', text: `databases: [{name: main}]\n${file}` },
        environment,
        flags: new Map(),
        readFile: path => {
          if (path === '/own.yaml') return definitions
          if (path === '/bad.yaml') return 'tools: 1'
          throw Object.assign(new Error('none'), { code: 'ENOENT' })
        },
      })
    expect(read('').custom).toBeUndefined()
    expect(read('custom_definitions_path: /own.yaml').custom?.tools).toHaveLength(9)
    expect(read('', { ESPALIER_CUSTOM_DEFINITIONS_PATH: '/own.yaml' }).custom?.prompts).toHaveLength(1)
    expect(() => read('custom_definitions_path: /none.yaml')).toThrow(
      'custom_definitions_path (mcp.yaml, line 2) names a file that cannot be read (ENOENT)',
    )
    expect(() => read('custom_definitions_path: /bad.yaml\nlog_level: loud')).toThrow(
      /log_level[\s\S]*\ntools \(\/bad\.yaml, line 1\) must be a list$/,
    )
  })
})

test("the reserved names are the names of the server's own tools", () => {
  const databases = createDatabaseAccess({ maximumBytes: 1_000, audit: () => {}, warn: () => {} })
  const settings = readMcpSettings({
    file: { path: 'f', text: 'databases: [{name: main}]' },
    ...{ environment: {}, flags: new Map(), readFile: () => '' },
  })
  const tools = createTools({
    ...{ settings, databases, resources: [], now: Date.now },
    entries: createEntries(() => []),
    catalogue: createCatalogue(databases, Date.now),
    logins: { login: () => Promise.reject(new Error('this test expects no login')) },
  })
  expect(tools.map(({ definition }) => definition.name).sort()).toEqual([...reservedToolNames].sort())
})
