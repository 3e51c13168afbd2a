/** Tests each sslmode, password and host, with a Postgres with TLS, a Postgres without TLS, and malicious servers. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { giveToPostgres, temporaryDirectory } from '../../operator/postgres/testing/postgres.ts'
import { until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { connectionAddress } from './address.ts'
import { connect } from './connect.ts'
import { Connection } from './connection.ts'

const day = 86_400_000
const authority = createAuthority(() => Date.now() - 400 * day)
const otherAuthority = createAuthority()
const server = issueServerCertificate(authority, { dnsNames: ['db.test'], ipAddresses: ['127.0.0.1'] })
const expired = issueServerCertificate(authority, { dnsNames: ['db.test'] }, () => Date.now() - 200 * day)

const access = `
local     all all            trust
hostnossl all plain_only all trust
hostssl   all tls_only   all trust
hostssl   all by_certificate all cert
host      all by_scram   all scram-sha-256
host      all by_text    all password
host      all postgres,anyone all trust
`
const password = 'Very:Secret \\ ß@/'

let secure: TestPostgres
let plain: TestPostgres
let directory: string
const file = (name: string) => join(directory, name)
const own = (path: string) => giveToPostgres(path)

beforeAll(async () => {
  directory = temporaryDirectory('tls')
  const client = issueClientCertificate(authority, { commonName: 'by_certificate' })
  const unknownClient = issueClientCertificate(otherAuthority, { commonName: 'by_certificate' })
  const files = {
    'server.crt': server.cert,
    'server.key': server.key,
    'ca.crt': authority.cert,
    'other-ca.crt': otherAuthority.cert,
    'client.crt': client.cert,
    'client.key': client.key,
    'stranger.crt': unknownClient.cert,
    'stranger.key': unknownClient.key,
    hba: access,
  }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(file(name), text, { mode: 0o600 })
    own(file(name))
  }
  mkdirSync(file('socket'))
  own(file('socket'))
  secure = await startPostgres('18', {
    ssl: 'on',
    ssl_cert_file: file('server.crt'),
    ssl_key_file: file('server.key'),
    ssl_ca_file: file('ca.crt'),
    hba_file: file('hba'),
    unix_socket_directories: file('socket'),
  })
  const roles = ['plain_only', 'tls_only', 'by_certificate', 'anyone'].map(role => `CREATE ROLE ${role} LOGIN;`)
  const withPassword = ['by_scram', 'by_text'].map(role => `CREATE ROLE ${role} LOGIN PASSWORD '${password}';`)
  await secure.run([...roles, ...withPassword].join('\n'))
  plain = await startPostgres('18')
})
afterAll(async () => {
  await secure?.stop()
  await plain?.stop()
  if (directory) rmSync(directory, { recursive: true })
})

/** What the server knows about the connection. */
async function made(text: string, environment: Record<string, string> = {}): Promise<string> {
  const client = await connect(connectionAddress(text, { PGDATABASE: 'postgres', ...environment }))
  try {
    const { rows } = await client.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return rows[0].ssl ? 'TLS' : 'plain'
  } finally {
    await client.end()
  }
}
/** Writes keywords, so that a name can be used for 127.0.0.1. */
const at = (postgres: TestPostgres, rest: string, host = 'db.test') =>
  `host=${host} hostaddr=127.0.0.1 port=${postgres.port} ${rest}`
const root = () => `sslrootcert=${file('ca.crt')}`

test('the first of several passwords, one a line, that Postgres accepts is used', async () => {
  const right = encodeURIComponent(password)
  const text = (passwords: string) => `postgresql://by_scram:${passwords}@127.0.0.1:${secure.port}`
  expect(await made(text(`newer%0A${right}`))).toBe('TLS')
  expect(await made(text(`${right}%0Aolder`))).toBe('TLS')
  await expect(made(text('newer%0Aolder'))).rejects.toMatchObject({ sqlState: '28P01' })
})

describe('sslmode', () => {
  const all = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']
  const outcomes = {
    'server with TLS': ['plain', 'plain', 'TLS', 'TLS', 'TLS', 'TLS'],
    'server without': ['plain', 'plain', 'plain', 'refused', 'refused', 'refused'],
    'a role that must use TLS': ['refused', 'TLS', 'TLS', 'TLS', 'TLS', 'TLS'],
    'a role that must not use TLS': ['plain', 'plain', 'plain', 'refused', 'refused', 'refused'],
  }
  const users = { 'a role that must use TLS': 'tls_only', 'a role that must not use TLS': 'plain_only' } as Record<
    string,
    string
  >

  for (const [name, expected] of Object.entries(outcomes)) {
    test.each(all.map((mode, index) => [mode, expected[index]]))(`with a ${name}: %s is %s`, async (mode, outcome) => {
      const postgres = name === 'server without' ? plain : secure
      const text = at(postgres, `user=${users[name] ?? 'postgres'} sslmode=${mode} ${mode === 'disable' ? '' : root()}`)
      expect(await made(text).catch(() => 'refused')).toBe(outcome)
    })
  }

  test('is prefer by default, and can be set in the environment', async () => {
    expect(await made(`postgresql://postgres@127.0.0.1:${secure.port}`)).toBe('TLS')
    expect(await made(`postgresql://postgres@127.0.0.1:${plain.port}`)).toBe('plain')
    const required = made(`postgresql://postgres@127.0.0.1:${plain.port}`, { PGSSLMODE: 'require' })
    await expect(required).rejects.toThrow('does not support SSL')
  })

  test.each([
    ['prefer', ''],
    ['require', ''],
    ['verify-ca', 'ca.crt'],
  ])('%s accepts any name', async (mode, authorityFile) => {
    const trusted = authorityFile === '' ? '' : `sslrootcert=${file(authorityFile)}`
    expect(await made(at(secure, `user=postgres sslmode=${mode} ${trusted}`, 'other.test'))).toBe('TLS')
  })

  test.each([
    ['a certificate for another name', 'other.test', 'ca.crt', /other\.test/],
    ['a certificate for another address', '127.0.0.2', 'ca.crt', /127\.0\.0\.2/],
    ['a certificate of an unknown authority', 'db.test', 'other-ca.crt', /unable to verify|self-signed|issuer/],
  ])('verify-full refuses %s', async (_, host, trusted, reason) => {
    const text = at(secure, `user=postgres sslmode=verify-full sslrootcert=${file(trusted)}`, host)
    await expect(made(text)).rejects.toThrow(reason)
  })

  test('verify-full trusts public authorities by default, so it trusts no private authority', async () => {
    for (const more of ['', 'sslrootcert=system']) {
      await expect(made(at(secure, `user=postgres sslmode=verify-full ${more}`))).rejects.toThrow(/certificate/)
    }
    expect(await made(at(secure, `user=postgres sslmode=verify-full ${root()}`, '127.0.0.1'))).toBe('TLS')
  })

  test.each(['require', 'prefer', 'verify-ca'])('%s verifies the certificate if there are authorities', async mode => {
    const text = at(secure, `user=postgres sslmode=${mode} sslrootcert=${file('other-ca.crt')}`)
    await expect(made(text)).rejects.toThrow(/certificate/)
  })

  test('a file that cannot be read is reported with its keyword', async () => {
    const text = at(secure, `user=postgres sslmode=verify-full sslrootcert=${file('none')}`)
    await expect(made(text)).rejects.toThrow(/^sslrootcert names a file that cannot be read: ENOENT/)
  })

  test('is ignored for a Unix socket', async () => {
    const text = `postgresql://postgres@/?host=${encodeURIComponent(file('socket'))}&port=${secure.port}&sslmode=require`
    expect(await made(text)).toBe('plain')
  })
})

describe('a client certificate', () => {
  const certified = (name: string) =>
    at(
      secure,
      `user=by_certificate sslmode=verify-full ${root()} sslcert=${file(`${name}.crt`)} sslkey=${file(`${name}.key`)}`,
    )

  test('logs in if the right authority signed it', async () => {
    expect(await made(certified('client'))).toBe('TLS')
    await expect(made(certified('stranger'))).rejects.toThrow(/unknown ca|certificate/i)
    await expect(made(at(secure, 'user=by_certificate sslmode=require'))).rejects.toThrow(/valid client certificate/)
  })

  test('that is missing is reported, although prefer has also tried without TLS', async () => {
    await expect(made(at(secure, 'user=by_certificate'))).rejects.toThrow(/valid client certificate.*no encryption/)
  })
})

describe('a password', () => {
  const environment = { PGHOST: '127.0.0.1', PGUSER: 'by_scram' }
  const here = () => ({ ...environment, PGPORT: String(secure.port) })

  test('can be in the URI, in PGPASSWORD or in a file', async () => {
    writeFileSync(file('pass'), `127.0.0.1:*:postgres:by_scram:${password.replace(/[\\:]/g, '\\$&')}\n`, {
      mode: 0o600,
    })
    const encoded = encodeURIComponent(password)
    expect(await made(`postgresql://by_scram:${encoded}@127.0.0.1:${secure.port}`)).toBe('TLS')
    expect(await made('postgresql://', { ...here(), PGPASSWORD: password })).toBe('TLS')
    expect(await made('postgresql://', { ...here(), PGPASSFILE: file('pass') })).toBe('TLS')
    expect(await made(`postgresql://?passfile=${encodeURIComponent(file('pass'))}`, here())).toBe('TLS')
  })

  test('that is wrong or missing is reported without its value', async () => {
    const wrong = made(`postgresql://by_scram:Wrong1@127.0.0.1:${secure.port}`)
    await expect(wrong).rejects.toMatchObject({ sqlState: '28P01', message: expect.not.stringContaining('Wrong1') })
    const missing = made('postgresql://', { ...here(), PGPASSFILE: file('none') })
    await expect(missing).rejects.toThrow('requires a password, and there is none')
  })
})

describe('channel_binding=require', () => {
  const bound = (user: string, mode: string) =>
    `postgresql://${user}:${encodeURIComponent(password)}@127.0.0.1:${secure.port}?channel_binding=require&sslmode=${mode}`

  test('binds SCRAM to TLS', async () => {
    expect(await made(bound('by_scram', 'require'))).toBe('TLS')
  })

  test.each([
    ['a connection without TLS', 'by_scram', 'disable', 'does not offer'],
    ['a server that requests the password', 'by_text', 'require', 'does not offer'],
    ['a server that requests no proof', 'tls_only', 'require', 'did not bind'],
  ])('refuses %s', async (_, user, mode, reason) => {
    await expect(made(bound(user, mode))).rejects.toThrow(reason)
  })
})

describe('a malicious server', () => {
  /** Answers a TLS request with one byte. Returns the bytes that arrive next, and sends the reply. */
  async function liar(answer: 'S' | 'N', authentication?: Buffer): Promise<{ port: number; received: () => Buffer }> {
    let received = Buffer.alloc(0)
    const secrets = createSecureContext({ cert: server.cert, key: server.key })
    const listen = (socket: Socket) => {
      socket.on('error', () => {})
      socket.on('data', chunk => {
        received = Buffer.concat([received, chunk])
        if (authentication !== undefined) socket.write(authentication)
      })
    }
    const listener = createServer(socket => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.write(answer)
        listen(answer === 'S' ? new TLSSocket(socket, { isServer: true, secureContext: secrets }) : socket)
      })
    }).listen(0, '127.0.0.1')
    await new Promise(resolve => listener.once('listening', resolve))
    onTestFinished(() => void listener.close())
    const { port } = listener.address() as AddressInfo // The server listens on a TCP address.
    return { port, received: () => received }
  }
  const text = (port: number, more: string) =>
    `postgresql://u:${encodeURIComponent(password)}@127.0.0.1:${port}?${more}`

  test.each(['require', 'verify-full'])('without TLS receives nothing with %s', async mode => {
    const { port, received } = await liar('N')
    await expect(made(text(port, `sslmode=${mode}`))).rejects.toThrow('does not support SSL')
    expect(received()).toHaveLength(0)
  })

  test('with a wrong name receives nothing with verify-full', async () => {
    const { port, received } = await liar('S')
    await expect(made(text(port, `sslmode=verify-full&sslrootcert=${file('other-ca.crt')}`))).rejects.toThrow()
    expect(received()).toHaveLength(0)
  })

  const clearText = Buffer.from('R\0\0\0\x08\0\0\0\x03', 'latin1')
  const scramOnly = Buffer.from('R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0', 'latin1')
  test.each([
    ['the password', clearText],
    ['SCRAM without binding', scramOnly],
  ])('that requests %s receives no password with channel_binding=require', async (_, authentication) => {
    const { port, received } = await liar('S', authentication)
    await expect(made(text(port, 'sslmode=require&channel_binding=require'))).rejects.toThrow('does not offer')
    expect(received().toString('latin1')).toMatch(/user\0u\0/)
    expect(received().toString('latin1')).not.toMatch(/SCRAM|Very/)
  })
})

describe('several hosts', () => {
  const closed = '127.0.0.1:1'
  const hosts = (...list: string[]) => `postgresql://anyone@${list.join(',')}`

  test('are tried in order', async () => {
    expect(await made(hosts(closed, `127.0.0.1:${secure.port}`))).toBe('TLS')
    expect(await made(hosts('no.such.host.invalid', `127.0.0.1:${secure.port}`))).toBe('TLS')
    await expect(made(hosts(closed, '127.0.0.1:2'))).rejects.toThrow(/127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: /)
  })

  test('are not tried after a host that refuses the login', async () => {
    const list = hosts(`127.0.0.1:${plain.port}`, `127.0.0.1:${secure.port}`)
    await expect(made(list)).rejects.toMatchObject({ sqlState: '28000' })
  })

  test('are skipped if one accepts the connection and then does not respond', async () => {
    const ended = Promise.withResolvers<void>()
    const silent = createServer(socket => {
      socket.on('error', () => {}).on('close', () => ended.resolve())
      socket.once('data', () => socket.write(Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I', 'latin1')))
    }).listen(0, '127.0.0.1')
    await new Promise(resolve => silent.once('listening', resolve))
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo // The server listens on a TCP address.
    const more = 'target_session_attrs=primary&connect_timeout=1'
    const list = `postgresql://postgres@127.0.0.1:${port},127.0.0.1:${plain.port}`
    expect(await made(`${list}?${more}&sslmode=disable`)).toBe('plain')
    await ended.promise
    await expect(made(`${hosts(`127.0.0.1:${port}`)}?${more}&sslmode=disable`)).rejects.toThrow(
      'did not report which kind of server it is within 1000 ms',
    )
  })

  test('are skipped if the session would be of the wrong kind', async () => {
    const list = (kind: string) => `${hosts(`127.0.0.1:${secure.port}`)}?target_session_attrs=${kind}`
    expect(await made(list('read-write'))).toBe('TLS')
    expect(await made(list('primary'))).toBe('TLS')
    await expect(made(list('standby'))).rejects.toThrow('not standby')
    await expect(made(list('read-only'))).rejects.toThrow('not read-only')
  })
})

test('the service cancels a query over verified TLS', async () => {
  const connection = await Connection.open(
    connectionAddress(at(secure, `user=postgres dbname=postgres sslmode=verify-full ${root()}`)),
    () => 0,
    () => {},
  )
  onTestFinished(() => connection.close())
  const sleeping = connection.run([{ text: 'SELECT pg_sleep(60)', values: [] }], false)
  // A cancel request that arrives before the query is lost.
  const asleep = `SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
  await until(async () => (await secure.run(asleep)).rowCount === 1)
  connection.cancel()
  await expect(sleeping).rejects.toMatchObject({ sqlState: '57014' })
})

test('verification refuses an expired certificate', async () => {
  writeFileSync(file('server.crt'), expired.cert)
  writeFileSync(file('server.key'), expired.key)
  await secure.run('SELECT pg_reload_conf()')
  const verified = () => made(at(secure, `user=postgres sslmode=verify-full ${root()}`))
  await until(() =>
    verified().then(
      () => false,
      () => true,
    ),
  )
  await expect(verified()).rejects.toThrow('certificate has expired')
  expect(await made(at(secure, 'user=postgres sslmode=require'))).toBe('TLS')
})

test('prefer-standby uses a standby at any position in the list, and any server if there is no standby', async () => {
  const text = `postgresql://postgres@127.0.0.1:${secure.port},127.0.0.1:${plain.port}?target_session_attrs=prefer-standby`
  expect(await made(text)).toBe('TLS')
  await plain.crash()
  writeFileSync(join(plain.directory, 'data', 'standby.signal'), '')
  own(join(plain.directory, 'data', 'standby.signal'))
  await plain.start()
  expect(await made(text)).toBe('plain')
})
