import { expect, test } from 'vitest'
import { withForwardedPrefix } from './prefix.ts'

const answer = (prefix: string | undefined) =>
  withForwardedPrefix(
    {
      status: 201,
      headers: [
        ['Location', '/people?id=eq.1'],
        ['Content-Location', '/people'],
        ['Link', '<?after=1>; rel="next"'],
        ['location', 'https://elsewhere.example/'],
      ],
      body: undefined,
    },
    { headers: { 'x-forwarded-prefix': prefix } },
  ).headers.map(([, value]) => value)

const unchanged = ['/people?id=eq.1', '/people', '<?after=1>; rel="next"', 'https://elsewhere.example/']

test('paths in Location and Content-Location start with the prefix that the proxy removed', () => {
  expect(answer('/0123-abcd/rest')).toEqual([
    '/0123-abcd/rest/people?id=eq.1',
    '/0123-abcd/rest/people',
    ...unchanged.slice(2),
  ])
})

test.each([undefined, '', '/', 'rest', '//elsewhere', '/rest/', '/a\r\nb', '/a, /b'])('%j is not a prefix', prefix => {
  expect(answer(prefix)).toEqual(unchanged)
})
