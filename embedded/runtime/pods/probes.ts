/** One probe of a container: exec, httpGet or tcpSocket (Kubernetes API, Probe). A failure has a one-line reason. */
import { request as httpsRequest } from 'node:https'
import { connect } from 'node:net'
import { request as httpRequest } from '../../../server/node-http.ts'
import type { Container } from './environment.ts'

export type Probe = NonNullable<Container['readinessProbe']>
/** `isCertain`: one such failure is enough, whatever the failure threshold. */
export type ProbeResult = { ok: true } | { ok: false; message: string; isCertain?: boolean }

/**
 * The exit code of a probe that found the disk full: the number of ENOSPC. Espalier's commands do not use this code for
 * anything else.
 */
export const fullDiskCode = 28

export type ProbeContext = {
  podIp: string
  ports: NonNullable<Container['ports']>
  /** Runs a command in the container's environment; resolves to its exit code, or undefined if it was interrupted. */
  execute(command: string[], timeoutMs: number): Promise<number | undefined>
}

const failure = (message: string): ProbeResult => ({ ok: false, message })

/** A port by number or by its name in the container. */
export function portNumber(port: string | number, ports: NonNullable<Container['ports']>): number | undefined {
  if (typeof port === 'number') return port
  const named = ports.find(candidate => candidate.name === port)?.containerPort
  return named ?? (/^\d+$/.test(port) ? Number(port) : undefined)
}

export async function runProbe(probe: Probe, context: ProbeContext): Promise<ProbeResult> {
  const timeoutMs = (probe.timeoutSeconds ?? 1) * 1000
  if (probe.exec) {
    const exitCode = await context.execute(probe.exec.command ?? [], timeoutMs)
    if (exitCode === undefined) return failure(`command timed out after ${timeoutMs} ms`)
    if (exitCode === fullDiskCode) return { ok: false, message: 'the disk is full', isCertain: true }
    return exitCode === 0 ? { ok: true } : failure(`command ended with exit code ${exitCode}`)
  }
  const target = probe.tcpSocket ?? probe.httpGet
  if (target === undefined) return failure('only exec, httpGet and tcpSocket probes are supported')
  const port = portNumber(target.port, context.ports)
  if (port === undefined) return failure(`no port named "${target.port}"`)
  const host = target.host ?? context.podIp
  return probe.httpGet ? getOnce(probe.httpGet, host, port, timeoutMs) : connectOnce(host, port, timeoutMs)
}

function connectOnce(host: string, port: number, timeoutMs: number): Promise<ProbeResult> {
  return new Promise(resolve => {
    const socket = connect({ host, port })
    const end = (result: ProbeResult) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(result)
    }
    const timer = setTimeout(() => end(failure(`no connection to port ${port} within ${timeoutMs} ms`)), timeoutMs)
    socket.once('connect', () => end({ ok: true }))
    socket.once('error', error => end(failure(error.message)))
  })
}

function getOnce(
  get: NonNullable<Probe['httpGet']>,
  host: string,
  port: number,
  timeoutMs: number,
): Promise<ProbeResult> {
  const headers = Object.fromEntries((get.httpHeaders ?? []).map(({ name, value }) => [name, value]))
  const options = { host, port, path: get.path ?? '/', headers, agent: false }
  return new Promise(resolve => {
    // The kubelet does not verify certificates either: a probe checks that the server answers, not its identity.
    const request =
      get.scheme === 'HTTPS' ? httpsRequest({ ...options, rejectUnauthorized: false }) : httpRequest(options)
    const end = (result: ProbeResult) => {
      clearTimeout(timer)
      request.destroy()
      resolve(result)
    }
    const timer = setTimeout(() => end(failure(`no answer within ${timeoutMs} ms`)), timeoutMs)
    request.once('response', response => {
      const status = response.statusCode ?? 0
      end(status >= 200 && status < 400 ? { ok: true } : failure(`HTTP status ${status}`))
    })
    request.on('error', error => end(failure(error.message)))
    request.end()
  })
}
