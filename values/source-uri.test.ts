import { expect, test } from 'vitest'
import { parseSourceUri } from './source-uri.ts'

const at = { host: 'db.example.com', port: 5432, database: 'shop', user: 'u', password: 'p', sslmode: 'require' }

test.each<[string, object]>([
  ['postgresql://u:p@db.example.com/shop', at],
  ['postgres://u:p@db.example.com:6432/shop?sslmode=verify-full', { ...at, port: 6432, sslmode: 'verify-full' }],
  ['postgresql://u%40x:p%2F%3A%25@db.example.com/sh%20op', { ...at, user: 'u@x', password: 'p/:%', database: 'sh op' }],
  ['postgresql://u:p@[2001:db8::1]:5433/shop', { ...at, host: '2001:db8::1', port: 5433 }],
  [
    'postgresql://u:p@db.example.com/shop?sslmode=require&channel_binding=require&connect_timeout=10',
    { ...at, channelBinding: 'require' },
  ],
])('%s is accepted', (text, expected) => {
  expect(parseSourceUri(text)).toEqual(expected)
})

test.each<[string, RegExp]>([
  ['mysql://u:p@h/d', /^must begin with/],
  ['postgresql://u:p@a.example.com,b.example.com/d', /^must name one host$/],
  ['postgresql://u:p@%2Fvar%2Frun/d', /not a socket$/],
  ['postgresql:///d?host=/tmp', /not a socket$/],
  ['postgresql://u@h.example.com/d', /^must have a password$/],
  ['postgresql://:p@h.example.com/d', /^must have a user$/],
  ['postgresql://u:p@h.example.com/', /^must have a database$/],
  ['postgresql://u:p@h.example.com/d%3D1', /without "="$/],
  ['postgresql://u:p%0Ax@h.example.com/d', /password with a control character$/],
  ['postgresql://u:p%zz@h.example.com/d', /^has a password with a "%"/],
  ['postgresql://u:p@h.example.com/d?options=-c', /^has an unknown parameter/],
  ['postgresql://u:p@h.example.com/d?sslmode=prefer', /^must have an sslmode of disable, require/],
  ['postgresql://u:p@h.example.com/d#x', /fragment/],
  [`postgresql://u:p@h.example.com/${'d'.repeat(2_000)}`, /^must have at most 2000/],
])('%s is refused with its rule', (text, rule) => {
  expect(() => parseSourceUri(text)).toThrow(rule)
})
