/** The bridge with its own TLS. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { namesAt, until } from '../testing/client.ts'
import { freePort } from '../testing/postgres.ts'
import { readBridgeConfiguration } from './configuration.ts'
import { startBridge } from './index.ts'

test('serves only TLS, with the certificate from its files', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-bridge-'))
  const authority = createAuthority()
  const { cert, key } = issueServerCertificate(authority, { dnsNames: ['localhost'] })
  writeFileSync(join(folder, 'tls.crt'), cert)
  writeFileSync(join(folder, 'tls.key'), key)
  const port = await freePort()
  const file = {
    server: { listen: `127.0.0.1:${port}`, auth: { type: 'none' }, tls: { cert_file: 'tls.crt', key_file: 'tls.key' } },
    mcp_server: {
      command: process.execPath,
      args: ['-e', 'process.stdin.resume()'],
      graceful_shutdown_timeout: '100ms',
    },
  }
  writeFileSync(join(folder, 'bridge.yaml'), stringify(file))
  const settings = readBridgeConfiguration(join(folder, 'bridge.yaml'), {})
  const bridge = await startBridge(settings, pino({ level: 'silent' }), { certificateIntervalMs: 20 })
  try {
    const answered = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = request({
        host: '127.0.0.1',
        port,
        servername: 'localhost',
        path: '/health',
        ca: authority.cert,
        agent: false,
        headers: { connection: 'keep-alive' },
      })
      outgoing.on('response', response => resolve(response.resume())).on('error', reject)
      outgoing.end()
    })
    expect(answered.statusCode).toBe(200)
    expect(answered.headers.connection).toBe('keep-alive')
    const plain = await new Promise<string>(resolve => {
      let text = ''
      const socket = connect(port, '127.0.0.1', () => socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n'))
      socket.on('data', piece => {
        text += piece.toString('latin1')
      })
      socket.on('close', () => resolve(text)).on('error', () => {})
    })
    expect(plain).not.toContain('HTTP/1.1')
    const renewed = issueServerCertificate(authority, { dnsNames: ['renewed.test'] })
    writeFileSync(join(folder, 'tls.crt'), renewed.cert)
    writeFileSync(join(folder, 'tls.key'), renewed.key)
    await until(async () => (await namesAt(port)) === 'DNS:renewed.test')
  } finally {
    await bridge.stop()
    rmSync(folder, { recursive: true })
  }
})
