import { describe, expect, test } from 'vitest'
import { EmbeddedError } from './errors.ts'
import { readSettings } from './settings.ts'

const passwd = () => 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\npostgres:x:101:104::/:/bin/sh\n'

describe('settings of an embedded installation', () => {
  test("an ordinary user's data are in the checkout", () => {
    const settings = readSettings({}, false, passwd)
    expect(settings.home).toMatch(/\.espalier$/)
    expect(settings).toMatchObject({
      apiPort: 8080,
      httpsPort: 8443,
      archivePort: 8444,
      ports: { first: 15432, last: 16431 },
      runAs: undefined,
      pool: true,
    })
  })

  test("root's data are under /var/lib, and Postgres runs as the first of the default users that exists", () => {
    const settings = readSettings({}, true, passwd)
    expect(settings.home).toBe('/var/lib/espalier')
    expect(settings.runAs).toEqual({ name: 'postgres', uid: 101, gid: 104 })
  })

  test('the variables set the provider URLs', () => {
    expect(readSettings({}, false, passwd).providers).toEqual({})
    const url = 'http://127.0.0.1:11434/v1'
    expect(readSettings({ ESPALIER_OPENAI_URL: url }, false, passwd).providers).toEqual({ openai: url })
    for (const text of ['127.0.0.1:11434', 'file:///etc/passwd', 'https://user:secret@ x'])
      expect(() => readSettings({ ESPALIER_VOYAGE_URL: text }, false, passwd)).toThrow(
        /^ESPALIER_VOYAGE_URL must be an http or https URL of at most 300 characters$/,
      )
  })

  test('the variables override the defaults', () => {
    const environment = {
      ESPALIER_HOME: '/x',
      ESPALIER_LISTEN: '0.0.0.0',
      ESPALIER_API_PORT: '9',
      ESPALIER_HTTPS_PORT: '10',
      ESPALIER_PORTS: '20-30',
      ESPALIER_USER: 'nobody',
      ESPALIER_POOL: 'off',
      ESPALIER_IMPORT_FROM: '10.0.0.0/8, fd00::/8',
      ESPALIER_CONSOLE_DIR: '/console',
    }
    expect(readSettings(environment, true, passwd)).toEqual({
      home: '/x',
      consoleDirectory: '/console',
      listenHost: '0.0.0.0',
      apiPort: 9,
      httpsPort: 10,
      archivePort: 8444,
      ports: { first: 20, last: 30 },
      runAs: { name: 'nobody', uid: 65534, gid: 65534 },
      pool: false,
      importFrom: ['10.0.0.0/8', 'fd00::/8'],
      providers: {},
    })
  })

  test.each([
    ['ESPALIER_IMPORT_FROM', '10.0.0.0'],
    ['ESPALIER_IMPORT_FROM', '10.0.0.0/33'],
    ['ESPALIER_LISTEN', 'localhost'],
    ['ESPALIER_LISTEN', '192.0.2.1'],
    ['ESPALIER_API_PORT', 'http'],
    ['ESPALIER_API_PORT', '0'],
    ['ESPALIER_API_PORT', '65536'],
    ['ESPALIER_HTTPS_PORT', 'off'],
    ['ESPALIER_PORTS', '10-5'],
    ['ESPALIER_PORTS', '5-5'],
    ['ESPALIER_PORTS', '1-2-3'],
    ['ESPALIER_PORTS', 'all'],
    ['ESPALIER_POOL', 'on'],
    ['ESPALIER_USER', 'root'],
    ['ESPALIER_USER', 'no-such-user'],
  ])('%s=%s is refused with its name', (variable, value) => {
    expect(() => readSettings({ [variable]: value }, true, passwd)).toThrow(EmbeddedError)
    expect(() => readSettings({ [variable]: value }, true, passwd)).toThrow(variable)
  })

  test('if the machine has no user for Postgres, the error names the variable to set', () => {
    expect(() => readSettings({}, true, () => 'root:x:0:0::/root:/bin/sh')).toThrow('ESPALIER_USER')
  })
})
