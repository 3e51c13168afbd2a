import { userInfo } from 'node:os'
import { expect, test } from 'vitest'
import { type Address, AddressError, connectionAddress } from './address.ts'

const tls = (text: string, environment = {}) => connectionAddress(text, environment).tls
const hosts = (text: string, environment = {}) =>
  connectionAddress(text, environment).hosts.map(({ name, address, port }) => `${name} ${address} ${port}`)

test.each<[string, Partial<Address>]>([
  ['postgresql://a:p%40s+s@h/d%23b', { user: 'a', password: 'p@s+s', database: 'd#b' }],
  ['postgres://a@/?dbname=d&password=a%26b', { user: 'a', database: 'd', password: 'a&b' }],
  ['postgres://a:first@h/first?password=second&dbname=second', { password: 'second', database: 'second' }],
  ["host=h user=a dbname='my db' password='it\\'s \\\\'", { user: 'a', database: 'my db', password: "it's \\" }],
  ['postgresql://a@h', { database: 'a', password: undefined, connectTimeoutMs: 10_000, channelBinding: 'prefer' }],
  ['postgresql://a@h?connect_timeout=3&options=-c%20a%3Db', { connectTimeoutMs: 3_000, options: '-c a=b' }],
  ['postgresql://h?application_name=app&fallback_application_name=other', { applicationName: 'app' }],
  ['postgresql://h?fallback_application_name=other', { applicationName: 'other' }],
  ['postgresql://', { user: userInfo().username, applicationName: 'espalier rest', sessionAttributes: 'any' }],
  ['postgresql://h?keepalives_idle=5&client_encoding=auto&channel_binding=require', { channelBinding: 'require' }],
])('%s', (text, expected) => {
  expect(connectionAddress(text, {})).toMatchObject(expected)
})

test.each<[string, string[]]>([
  ['postgresql://', ['localhost localhost 5432']],
  ['postgresql://h:1', ['h h 1']],
  [
    'postgresql://[::1]:5433,second.example,third:1/d',
    ['::1 ::1 5433', 'second.example second.example 5432', 'third third 1'],
  ],
  ['postgresql://a,b?port=6', ['a a 6', 'b b 6']],
  ['postgresql:///d?host=%2Frun%2Fpg', ['/run/pg /run/pg 5432']],
  ['postgresql://%2Frun%2Fpg:6/d', ['/run/pg /run/pg 6']],
  ['host=db.test hostaddr=127.0.0.1', ['db.test 127.0.0.1 5432']],
  ['hostaddr=127.0.0.1,::1 port=1,2', ['127.0.0.1 127.0.0.1 1', '::1 ::1 2']],
])('%s gives the hosts', (text, expected) => {
  expect(hosts(text)).toEqual(expected)
})

test("libpq's environment variables supply what the connection string omits", () => {
  const environment = {
    PGHOST: 'h',
    PGPORT: '7',
    PGUSER: 'u',
    PGDATABASE: 'd',
    PGPASSWORD: 'p',
    PGPASSFILE: '/pass',
    PGAPPNAME: 'app',
    PGOPTIONS: '-c a=b',
    PGCONNECT_TIMEOUT: '4',
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: '/root',
    PGSSLCERT: '/cert',
    PGSSLKEY: '/key',
    PGSSLMINPROTOCOLVERSION: 'TLSv1.3',
    PGCHANNELBINDING: 'require',
    PGTARGETSESSIONATTRS: 'primary',
  }
  expect(connectionAddress('postgresql://', environment)).toEqual({
    hosts: [{ name: 'h', address: 'h', port: 7 }],
    user: 'u',
    database: 'd',
    password: 'p',
    passwordFile: '/pass',
    applicationName: 'app',
    options: '-c a=b',
    connectTimeoutMs: 4_000,
    tls: {
      mode: 'verify-full',
      rootFile: '/root',
      certificateFile: '/cert',
      keyFile: '/key',
      keyPassword: undefined,
      leastVersion: 'TLSv1.3',
    },
    channelBinding: 'require',
    sessionAttributes: 'primary',
  })
  expect(connectionAddress('postgresql://me@there:1?sslmode=require&sslrootcert=/own', environment)).toMatchObject({
    hosts: [{ name: 'there', port: 1 }],
    user: 'me',
    tls: { mode: 'verify-ca', rootFile: '/own' },
  })
  expect(tls('postgresql://?sslmode=', { PGSSLMODE: 'require' }).mode).toBe('require')
})

test.each([
  ['postgresql://h', 'prefer'],
  ['postgresql://h?sslmode=require', 'require'],
  // libpq's documentation allows this for compatibility.
  ['postgresql://h?sslmode=require&sslrootcert=/ca', 'verify-ca'],
  ['postgresql://h?sslrootcert=/ca', 'prefer'],
  ['postgresql://h?sslrootcert=system', 'verify-full'],
  ['postgresql://h?ssl%6Dode=verify-full', 'verify-full'],
])('the TLS mode of %s is %s', (text, mode) => {
  expect(tls(text).mode).toBe(mode)
})

test.each<[string, RegExp, Record<string, string>?]>([
  ['host=h secretive=abc', /not supported: secretive$/],
  ['postgresql://h?SSLMODE=require', /not supported: \?{7}$/],
  ['postgresql://h?require_auth=scram-sha-256', /not supported: require_auth$/],
  ['postgresql://h?service=abc', /not supported: service$/],
  ['postgresql://h?sslmode=abc', /sslmode that is one of disable, allow/],
  ['postgresql://h', /sslmode that is one of/, { PGSSLMODE: 'abc' }],
  ['postgresql://h', /completed by PGREQUIREAUTH, which is not supported/, { PGREQUIREAUTH: 'abc' }],
  ['postgresql://h?channel_binding=abc', /channel_binding that is one of disable, prefer, require/],
  ['postgresql://h?sslmode=verify-ca', /sslrootcert with sslmode=verify-ca/],
  ['postgresql://h?sslmode=require&sslrootcert=system', /sslmode=verify-full with sslrootcert=system/],
  ['postgresql://h?sslcert=/abc', /sslcert and sslkey together/],
  ['postgresql://a:%zz@h/d', /must be a connection string/],
  ['postgresql://a:abc%00@h/d', /zero byte in password/],
  ['postgresql://h:99999/d', /ports from 1 to 65535/],
  ['host=a,b,c port=1,2', /one port, or one for each host/],
  ['host=a,b hostaddr=127.0.0.1', /one hostaddr for each host/],
  ['postgresql://h?connect_timeout=abc', /whole number as connect_timeout/],
])('%s is refused, and the error does not repeat its values', (text, rule, environment = {}) => {
  const refused = () => connectionAddress(text, environment)
  expect(refused).toThrow(AddressError)
  expect(refused).toThrow(rule)
  expect(refused).not.toThrow(/abc|99999/)
})
