import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isConnectionText, maskConnectionText, maskUserInfo } from './connection-text.ts'

test.each([
  'postgresql://',
  'postgres://user@/dbname',
  'postgres://user:p%40ss@localhost:5433/postgres?sslmode=require&application_name=a@b',
  'postgresql://u:p@[::1]:5432,second.example,third:5433/d?target_session_attrs=any',
  'postgresql:///d?host=%2Ftmp&port=5433',
  'host=localhost port=5433 user=authenticator password=mysecretpassword dbname=postgres',
  " user = a password = 'it\\'s a \\\\ secret' dbname='' ",
])('%j is a connection string', text => {
  expect(isConnectionText(text)).toBe(true)
})

test.each([
  '',
  'mysql://h/d',
  'localhost',
  'postgres://u:p@ss@h/d',
  'postgres://u:p/w@h/d',
  'postgres://u:1/w@h/d',
  'postgres://u:1?w@h/d',
  'postgres://u:p#w@h/d',
  'postgres://h:port/d',
  'postgres://u:%zz@h/d',
  'postgres://h/d e',
  'host=localhost nonsense',
  "password='open",
])('%j is not a connection string', text => {
  expect(isConnectionText(text)).toBe(false)
  expect(maskConnectionText(text)).toBe('********')
})

test.each([
  ['postgres://u:s%40@h:1/d?sslmode=require', 'postgres://u:********@h:1/d?sslmode=require'],
  ['postgres://u@h:1/d', 'postgres://u@h:1/d'],
  ['postgres://h:5432/d?a=b@c', 'postgres://h:5432/d?a=b@c'],
  [
    'postgres://h/d?user=u&password=s&p%61ssword=s&sslpassword=s',
    'postgres://h/d?user=u&password=********&p%61ssword=********&sslpassword=********',
  ],
  ['host=h password=s dbname=d', 'host=h password=******** dbname=d'],
  ["password = 's\\' user=x' dbname = 'a b'", "password=******** dbname='a b'"],
])('%j is printed as %j', (text, masked) => {
  expect(maskConnectionText(text)).toBe(masked)
})

test('the output never contains a password, however the password is written, and the output is a connection string', () => {
  const passwords = fc.string({ unit: 'binary', minLength: 1 }).map(text => `Sec${text}ret`)
  const written = fc.constantFrom(
    (password: string) => `postgres://u:${encodeURIComponent(password)}@h/d`,
    (password: string) => `postgres://h/d?user=u&password=${encodeURIComponent(password)}`,
    (password: string) => `host=h password='${password.replace(/['\\]/g, found => `\\${found}`)}' user=u`,
  )
  fc.assert(
    fc.property(passwords, written, (password, write) => {
      const masked = maskConnectionText(write(password))
      expect(masked).not.toMatch(/Sec|ret/)
      expect(masked).not.toBe('********')
      expect(isConnectionText(masked)).toBe(true)
      expect(maskConnectionText(masked)).toBe(masked)
    }),
  )
})

test('no password appears in a URI', () => {
  expect(maskUserInfo('https://u:p:q@example.com/a@b')).toBe('https://u:********@example.com/a@b')
  expect(maskUserInfo('https://example.com:8443/a')).toBe('https://example.com:8443/a')
})
