import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { messagesIn } from './api-errors.ts'
import { generatedPages, referenceDirectory } from './generate.ts'
import { metricsIn } from './metrics.ts'

test('the reference pages are what `make reference` writes', () => {
  for (const [name, text] of generatedPages())
    expect(readFileSync(join(referenceDirectory, name), 'utf8'), name).toBe(text)
})

test('every metric that the product names is on the page of metrics', () => {
  const page = generatedPages().get('metrics.md') ?? ''
  const sources = globSync('{api,archive,controller,gateway,operator,services}/**/*metrics.ts')
  const names = sources.flatMap(path => [
    ...readFileSync(path, 'utf8').matchAll(/'((?:espalier|rst|rag|mcp)_[a-z0-9_]+)'/g),
  ])
  expect(names.length).toBeGreaterThan(50)
  expect(names.map(([, name]) => name).filter(name => !page.includes(`\`${name}\``))).toEqual([])
})

test('metrics are found by literal names, constants, and helpers', () => {
  const source = `
    const [count] = ['a_count']
    const names = { late: 'a_late' }
    new Gauge({ name: count, help: 'Counts.', registers })
    new Gauge({ name: names.late, help: 'It\\'s late.', labelNames: ['kind', 'code'], registers })
    new Gauge({ name: 'a_name', help: 'Named.' })
    addGauge(registry, 'a_gauge', 'Measured.', read)`
  expect(metricsIn(source)).toEqual([
    { name: 'a_count', help: 'Counts.', labels: [] },
    { name: 'a_late', help: "It's late.", labels: ['kind', 'code'] },
    { name: 'a_name', help: 'Named.', labels: [] },
    { name: 'a_gauge', help: 'Measured.', labels: [] },
  ])
})

test('messages of errors are found by function and by status, without their values', () => {
  const source = `
    throw badRequest('name: is too long')
    throw conflict(
      \`the database is \${phase}: retry\`,
      retryAfter.busy,
    )
    badRequest(isGone ? 'name: is being deleted' : "name: is another's")
    throw notFound('previous volume')
    new ApiError(415, 'Content-Type must be JSON')
    FST_ERR: [413, 'the body is too long'],
    throw badRequest(\`\${field}: \${rule}\`)`
  expect(messagesIn(source)).toEqual([
    { status: 400, text: 'name: is too long' },
    { status: 409, text: 'the database is …: retry' },
    { status: 400, text: 'name: is being deleted' },
    { status: 400, text: "name: is another's" },
    { status: 404, text: 'previous volume not found' },
    { status: 415, text: 'Content-Type must be JSON' },
    { status: 413, text: 'the body is too long' },
  ])
})

test('the page of errors has the message of nearly every error that the API creates', () => {
  const page = generatedPages().get('api-errors.md') ?? ''
  expect(page.match(/^- /gm)?.length).toBeGreaterThan(140)
  expect(page.match(/^\| `\w+` \| .{20,} \|$/gm)).toHaveLength(3)
})
