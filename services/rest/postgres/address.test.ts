import { expect, test } from 'vitest'
import { clientConfig } from './address.ts'

test.each<[string, string | undefined]>([
  ['postgresql://a@host:1/db', 'postgresql://a@host:1/db'],
  ['postgresql://', undefined],
  ['', undefined],
  ['postgres://h/d?sslmode=require', 'postgres://h/d?sslmode=require&uselibpqcompat=true'],
  ["host=h port=5 dbname='my db' password='it\\'s'", 'postgresql://?host=h&port=5&database=my+db&password=it%27s'],
  ['host=h sslmode=verify-full', 'postgresql://?host=h&sslmode=verify-full&uselibpqcompat=true'],
])('%s', (uri, connectionString) => {
  expect(clientConfig(uri, 1).connectionString).toBe(connectionString)
})

test('a keyword that is not known is refused, and its value not repeated', () => {
  expect(() => clientConfig('host=h secretive=abc', 1)).toThrow(/^((?!abc).)*known$/)
})
