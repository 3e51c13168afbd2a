import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { testCertificate } from '../testing/certificate.ts'
import { haproxyVersion } from '../testing/haproxy.ts'
import { haproxyDefaults, renderConfiguration } from './configuration.ts'
import { pathsIn } from './paths.ts'
import { writeConfiguration } from './write.ts'

const options = { ...haproxyDefaults, paths: pathsIn('/run/espalier'), ports: { first: 30_000, last: 30_099 } }

test('haproxy.cfg listens on the whole range, and by default accepts PROXY headers from no client', () => {
  const text = renderConfiguration(options)
  expect(text).toContain('bind 0.0.0.0:30000-30099\n')
  expect(text).not.toContain('expect-proxy')
  expect(renderConfiguration({ ...options, proxyProtocolFrom: ['10.0.0.0/8', '192.0.2.1/32'] })).toContain(
    'tcp-request connection expect-proxy layer4 if { src 10.0.0.0/8 192.0.2.1/32 }\n',
  )
})

test('haproxy.cfg records the port before a PROXY header can name another port', () => {
  const lines = renderConfiguration({ ...options, proxyProtocolFrom: ['10.0.0.0/8'] }).split('\n')
  const at = (part: string) => lines.findIndex(line => line.includes(part))
  expect(at('set-var(sess.port) dst_port')).toBeLessThan(at('expect-proxy'))
  expect(at('expect-proxy')).toBeLessThan(at('sess.key'))
})

if (haproxyVersion === undefined) test.skip('haproxy.cfg with HAProxy: needs haproxy on this machine', () => {})
else
  test('HAProxy accepts haproxy.cfg with empty maps, without a warning', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'espalier-configuration-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const paths = pathsIn(directory)
    const https = { port: 8443, maxConnections: 1_000, placeholder: testCertificate('espalier.invalid') }
    await writeConfiguration({ ...options, paths, https, proxyProtocolFrom: ['10.0.0.0/8'] })
    const check = spawnSync(process.env.ESPALIER_HAPROXY || 'haproxy', ['-c', '-dW', '-f', paths.configuration], {
      encoding: 'utf8',
    })
    expect(check.stderr).not.toMatch(/ALERT|WARNING/)
    expect(check.status).toBe(0)
    expect(await readFile(paths.allow, 'utf8')).toBe('')
  })
