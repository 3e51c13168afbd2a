/** An HTTPS server (TLS 1.2 or newer) that reloads its certificate files. */
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { type Certificate, type CertificateFiles, followCertificate } from '../../server/certificate.ts'

const contextOf = ({ cert, key }: Certificate) => ({ cert, key, minVersion: 'TLSv1.2' }) as const

export function createTlsServer(
  certificate: Certificate,
  options: ServerOptions,
  receive: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  // Loaded only for TLS, because the module needs a few MiB of memory.
  const { createServer } = process.getBuiltinModule('node:https')
  const server = createServer({ ...options, ...contextOf(certificate), ALPNProtocols: ['http/1.1'] }, receive)
  server.on('tlsClientError', (_, socket) => socket.destroy())
  // Node's types differ, but the API is the same (Node manual, https.Server).
  return server as Server & typeof server
}

type Following = {
  readonly files: CertificateFiles
  /** The certificate that the server uses now. */
  readonly current: Certificate
  readonly intervalMs?: number | undefined
  readonly logger: Logger
}

/** Reloads the certificate whenever its files change. Open connections continue. */
export function followTls(server: Server, following: Following): { stop(): void } {
  const { Server: TlsServer } = process.getBuiltinModule('node:tls')
  return followCertificate({
    ...following,
    use: certificate => {
      if (server instanceof TlsServer) server.setSecureContext(contextOf(certificate))
    },
  })
}
