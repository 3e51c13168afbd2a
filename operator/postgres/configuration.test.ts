import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  isSettingForSizes,
  pgVersions,
  type SizeShape,
  settingPrefixesNotForSizes,
  settingsNotForSizes,
} from '../../crds/index.ts'
import { quoteSetting, renderSettings } from '../../instance/settings.ts'
import { quantityToBytes } from '../../values/quantity.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { smallShape } from '../testing/samples.ts'
import {
  maxConnections,
  operatorCommonName,
  postgresCommand,
  postgresSettings,
  renderConfiguration,
} from './configuration.ts'
import { withConnection } from './connection.ts'
import { type RunningPostgres, startPostgres } from './testing/postgres.ts'

describe('settings', () => {
  const shape = (changes: Partial<SizeShape>): SizeShape => ({ ...smallShape, ...changes })
  const anyShape = fc
    .record({
      memory: fc.integer({ min: 64, max: 512 * 1024 }),
      storage: fc.integer({ min: 1, max: 16 * 1024 }),
      cpu: fc.integer({ min: 50, max: 64_000 }),
      connections: fc.integer({ min: 1, max: 10_000 }),
    })
    .map(({ memory, storage, cpu, connections }) =>
      shape({
        memoryRequest: `${memory}Mi`,
        memoryLimit: `${memory * 2}Mi`,
        storageSize: `${storage}Gi`,
        cpuLimit: `${cpu}m`,
        connections,
      }),
    )

  test('allow the connections of the size besides the reserved ones', () => {
    fc.assert(
      fc.property(anyShape, size => {
        const settings = postgresSettings(size, '17')
        const [most, superusers, reserved] = [
          'max_connections',
          'superuser_reserved_connections',
          'reserved_connections',
        ]
        const number = (name = '') => Number(settings[name])
        expect(number(most) - number(superusers) - number(reserved)).toBe(size.connections)
        expect(number(most)).toBe(maxConnections(size))
      }),
    )
  })

  test('never use more memory than the size has', () => {
    fc.assert(
      fc.property(anyShape, size => {
        const settings = postgresSettings(size, '18')
        const bytes = (name: string) => Number(/^(\d+)kB$/.exec(settings[name] ?? '')?.[1]) * 1024
        expect(bytes('shared_buffers')).toBeLessThanOrEqual(quantityToBytes(size.memoryRequest) / 4)
        expect(bytes('maintenance_work_mem')).toBeLessThan(quantityToBytes(size.memoryLimit))
        expect(bytes('effective_cache_size')).toBeLessThanOrEqual(quantityToBytes(size.memoryLimit))
      }),
    )
  })

  test('prefer those of the size over derived ones', () => {
    const settings = postgresSettings(shape({ postgresSettings: { shared_buffers: '24MB', 'my.own': 'x' } }), '17')
    expect(settings).toMatchObject({ shared_buffers: '24MB', 'my.own': 'x' })
  })

  test.each([...settingsNotForSizes, ...settingPrefixesNotForSizes, 'ssl_ca_file', 'include_dir', 'archive_mode'])(
    'never use %s from a size',
    name => {
      const plain = postgresSettings(smallShape, '17')
      expect(postgresSettings(shape({ postgresSettings: { [name]: 'evil' } }), '17')).toEqual(plain)
    },
  )

  test('never allow a size to override a fixed setting', () => {
    const fixed = Object.keys(postgresSettings(smallShape, '18')).filter(
      name => postgresSettings(shape({ postgresSettings: { [name]: 'evil' } }), '18')[name] !== 'evil',
    )
    expect(fixed.filter(isSettingForSizes)).toEqual([])
  })

  test.each<[string, string]>([
    ['-1', '102400kB'],
    [' -1', '102400kB'],
    ['', '102400kB'],
    ['20MB', '20MB'],
  ])('limit temporary files if a size has %j', (own, limit) => {
    expect(postgresSettings(shape({ postgresSettings: { temp_file_limit: own } }), '17').temp_file_limit).toBe(limit)
  })

  test('limit the WAL that a replication slot retains to a part of the volume', () => {
    fc.assert(
      fc.property(anyShape, size => {
        const keepSize = postgresSettings(size, '17').max_slot_wal_keep_size ?? ''
        expect(Number(/^(\d+)MB$/.exec(keepSize)?.[1]) * 2 ** 20).toBeLessThanOrEqual(
          quantityToBytes(size.storageSize) / 5,
        )
      }),
    )
  })

  test('enable WAL summaries if Postgres has them', () => {
    expect(postgresSettings(smallShape, '16')).not.toHaveProperty('summarize_wal')
    expect(postgresSettings(smallShape, '17')).toHaveProperty('summarize_wal', 'on')
  })

  test('disable ALTER SYSTEM if Postgres can', () => {
    expect(postgresSettings(smallShape, '16')).not.toHaveProperty('allow_alter_system')
    expect(postgresSettings(smallShape, '17')).toHaveProperty('allow_alter_system', 'off')
  })

  test('accept only TLS, and the superuser by certificate only', () => {
    const rules = renderConfiguration(smallShape, '17', 'any')
      ['pg_hba.conf'].split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
      .map(line => line.split(/\s+/).join(' '))
    expect(rules).toEqual([
      'hostnossl all all all reject',
      'hostnossl replication all all reject',
      'hostssl all postgres all cert map=espalier',
      'hostssl replication espalier_replication all cert map=espalier_replication',
      'hostssl replication all all reject',
      'hostssl all espalier_replication all reject',
      'hostssl template1 espalier_monitor all cert map=espalier_monitor',
      'hostssl all espalier_monitor all reject',
      'hostssl all all all scram-sha-256',
    ])
  })

  test('leave listen_addresses to the command line', () => {
    expect(postgresSettings(smallShape, '17').listen_addresses).toBe('')
    expect(postgresCommand('/var/lib/postgresql')).toEqual([
      'postgres',
      '-D',
      '/var/lib/postgresql/pgdata',
      '-c',
      'listen_addresses=$(POD_IP)',
    ])
  })

  test('have names that cannot end their line', () => {
    expect(() => renderSettings({ "a = 'x'\nfsync": 'off' })).toThrow("not a setting's name")
    expect(() => quoteSetting('a\0b')).toThrow(RangeError)
  })
})

describe('settings in a real Postgres', () => {
  let servers: RunningPostgres[]
  beforeAll(async () => {
    servers = await Promise.all(pgVersions.map(major => startPostgres({ major })))
  })
  afterAll(() => Promise.all((servers ?? []).map(server => server.stop())))

  const rows = <Row extends Record<string, unknown>>(server: RunningPostgres, sql: string): Promise<Row[]> => {
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    return withConnection(server.target, 'template1', certificate, new AbortController().signal, connection =>
      connection.rows<Row>(sql),
    )
  }

  test('are all known, applied, and from the file of the operator', async () => {
    for (const [index, major] of pgVersions.entries()) {
      const server = servers[index]
      if (server === undefined) throw new Error('not started')
      expect(await rows(server, 'SELECT name FROM pg_file_settings WHERE error IS NOT NULL')).toEqual([
        // The test's own command line overrides these settings.
        { name: 'listen_addresses' },
        { name: 'port' },
      ])
      const found = await rows<{ name: string }>(server, 'SELECT DISTINCT lower(name) AS name FROM pg_file_settings')
      const expected = Object.keys(postgresSettings(smallShape, major))
      expect(found.map(({ name }) => name).sort()).toEqual(
        [
          ...expected,
          ...['espalier.configuration', 'hba_file', 'ident_file', 'shared_preload_libraries'],
          ...['ssl_ca_file', 'ssl_cert_file', 'ssl_key_file'],
        ].sort(),
      )
      expect(await rows(server, 'SELECT * FROM pg_hba_file_rules WHERE error IS NOT NULL')).toEqual([])
      expect(await rows(server, 'SELECT * FROM pg_ident_file_mappings WHERE error IS NOT NULL')).toEqual([])
      expect(
        await rows(server, "SELECT current_setting('shared_buffers') AS shared, current_setting('ssl') AS ssl"),
      ).toEqual([{ shared: '16MB', ssl: 'on' }])
    }
  })

  /** Categories of pg_settings that no size may set, in any version; `%` for any prefix or suffix. */
  const notForSizes = [
    'File Locations',
    '% / SSL',
    '% / Connection Settings',
    '% / Shared Library Preloading',
    '% / Archiving',
    '% / Archive Recovery',
    '% / Recovery Target',
  ]
  /** Settings that control access, data or code, in categories that sizes may otherwise set. */
  const namesNotForSizes = [
    ...['db_user_namespace', 'password_encryption', 'createrole_self_grant', 'lo_compat_privileges'],
    ...['session_replication_role', 'synchronous_standby_names', 'primary_conninfo', 'max_wal_senders', 'wal_level'],
    ...['fsync', 'zero_damaged_pages', 'ignore_checksum_failure', 'ignore_system_indexes', 'send_abort_for_crash'],
    ...['dynamic_library_path', 'jit_provider', 'allow_in_place_tablespaces', 'krb_server_keyfile', 'plperl.on_init'],
  ]

  test('of access, addresses, recovery or loaded code are not for sizes, in any version', async () => {
    for (const server of servers) {
      const sql = `SELECT name FROM pg_settings WHERE context <> 'internal' AND category LIKE ANY ('{${notForSizes.map(category => `"${category}"`).join()}}')`
      const found = await rows<{ name: string }>(server, sql)
      expect(found.length).toBeGreaterThan(40)
      expect(found.map(({ name }) => name).filter(isSettingForSizes)).toEqual([])
    }
    expect(namesNotForSizes.filter(isSettingForSizes)).toEqual([])
  })

  test('keep any value unchanged', async () => {
    const [server] = servers
    if (server === undefined) throw new Error('not started')
    const path = join(server.mounts.volume, 'pgdata', 'postgresql.conf')
    const original = readFileSync(path, 'utf8')
    const text = fc.string({ unit: 'grapheme', maxLength: 60 }).filter(value => !value.includes('\0'))
    const nasty = fc.string({
      unit: fc.constantFrom("'", '\\', '\n', '\r', '#', '"', '=', ' ', '\b', 'n', '7', 'é'),
      maxLength: 30,
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(text, nasty), { minLength: 1, maxLength: 200 }), async values => {
        writeFileSync(path, original)
        appendFileSync(
          path,
          renderSettings(Object.fromEntries(values.map((value, index) => [`test.v${index}`, value]))),
        )
        const read = await rows<{ setting: string }>(
          server,
          "SELECT setting FROM pg_file_settings WHERE name LIKE 'test.%' ORDER BY seqno",
        )
        expect(read.map(({ setting }) => setting)).toEqual(values)
      }),
      { numRuns: 20 },
    )
    writeFileSync(path, original)
  })
})
