/**
 * HAProxy as the data plane of a replica. One loop owns the connection to HAProxy's runtime API and tracks the content
 * of the maps. After a new connection or an unexpected answer, the content is unknown, and the loop pushes everything
 * again. It pushes each map in one transaction, so that HAProxy never reads half a map. It pushes the deadline last, so
 * that a HAProxy that has just started admits no connection before all maps are complete.
 *
 * While HAProxy cannot be reached, the agent applies no change. So it neither renews the Lease nor acknowledges routes.
 */
import type { Logger } from 'pino'
import { backoffMs, sleep, systemClock } from '../../cluster/informer/clock.ts'
import { certificatesDigest, type RouteTarget } from '../../routes/route.ts'
import type { DataPlane } from '../data-plane.ts'
import { type HostTable, noHosts } from '../http/table.ts'
import type { RouteTable } from '../table.ts'
import { type Certificates, PushedCertificates } from './certificates.ts'
import { createHttpEndpointCache } from './http-maps.ts'
import { httpsEndMs } from './https.ts'
import { createEndpointCache, isWithin } from './maps.ts'
import type { Paths, PortRange } from './paths.ts'
import { Progress } from './progress.ts'
import { PushedMaps } from './pushed-maps.ts'
import { connectRuntime, type RuntimeConnection, type RuntimeLimits, runtimeLimits } from './runtime.ts'

type HaproxyPlane = DataPlane & {
  /** Reports that a target's address may have changed. */
  retarget(): void
  /** Sets the certificates of the HTTPS listener. A certificate that HAProxy refuses does not block rules. */
  setCertificates(certificates: Certificates): void
  /** Makes clients of the HTTPS listener connect to another replica. New connections are still admitted. */
  drain(): void
  /**
   * Shuts down the HTTPS listener. Resolves once HAProxy has closed every idle connection of the listener, or if
   * HAProxy cannot be reached. Connections with a request in progress stay open.
   */
  endHttps(): Promise<void>
  /** Returns why HAProxy does not have the desired rules; undefined if it has them. */
  problem(): string | undefined
  /** Disconnects from HAProxy and leaves it unchanged. */
  stop(): Promise<void>
}

type PlaneOptions = {
  paths: Paths
  ports: PortRange
  addressOf: (target: RouteTarget) => string | undefined
  /** Whether the addresses of targets are known. Until then nothing is pushed. */
  resolvable: () => boolean
  /** Whether HAProxy has the HTTPS listener. Without it, routes by host name are not served. */
  https: boolean
  limits?: RuntimeLimits | undefined
  /** Called when HAProxy has all rules again after a failure. */
  onRecovered: () => void
  onPushed?: ((push: { all: boolean; seconds: number }) => void) | undefined
  logger: Logger
}

const retryDelays = { minimumMs: 100, maximumMs: 2_000 }
/** How long a caller waits until a change is applied. A push of all rules takes much less time. */
const appliedMs = 20_000

export function createHaproxyPlane(options: PlaneOptions): HaproxyPlane {
  return new Plane(options)
}

class Plane implements HaproxyPlane {
  readonly #options: PlaneOptions
  readonly #limits: RuntimeLimits
  readonly #endpoints: ReturnType<typeof createEndpointCache>
  readonly #httpEndpoints: ReturnType<typeof createHttpEndpointCache>
  readonly #stopping = new AbortController()
  readonly #progress = new Progress(this.#stopping.signal)
  readonly #running: Promise<void>
  /** The desired rules. */
  #table: RouteTable | undefined
  #hosts: HostTable = noHosts
  /** If undefined, HAProxy keeps its previous deadline, which is never later than the end of the Lease. */
  #deadlineSeconds: number | undefined
  #closed = false
  #draining = false
  #endsHttps = false
  #certificates: Certificates | undefined
  /** The digest of the certificates that HAProxy uses; undefined before the first push, `refused` after a refusal. */
  #servedCertificates: string | undefined
  #problem: string | undefined = 'HAProxy has not been reached yet'

  constructor(options: PlaneOptions) {
    this.#options = options
    this.#limits = options.limits ?? runtimeLimits
    this.#endpoints = createEndpointCache(options.ports, options.addressOf)
    this.#httpEndpoints = createHttpEndpointCache(options.addressOf)
    this.#running = this.#run()
  }

  put(table: RouteTable, hosts: HostTable): void {
    this.#table = table
    this.#hosts = hosts
    this.#progress.change()
  }

  async applied(): Promise<{ refusedPorts: number[] }> {
    await this.#progress.untilDone(appliedMs)
    const refusedPorts = [...(this.#table?.keys() ?? [])].filter(port => !isWithin(this.#options.ports, port))
    return { refusedPorts: refusedPorts.sort((left, right) => left - right) }
  }

  httpsCertificates(): string | undefined {
    return this.#options.https ? this.#servedCertificates : undefined
  }

  admitUntil(deadline: number): void {
    const seconds = Math.max(0, Math.floor(deadline / 1000))
    if (this.#closed || seconds === this.#deadlineSeconds) return
    this.#deadlineSeconds = seconds
    this.#progress.change()
  }

  async close(): Promise<boolean> {
    this.#closed = true
    this.#deadlineSeconds = 0
    this.#progress.change()
    return await this.#progress.untilDone(this.#limits.answerMs).then(
      () => true,
      () => false,
    )
  }

  retarget(): void {
    this.#progress.change()
  }

  setCertificates(certificates: Certificates): void {
    this.#certificates = certificates
    this.#progress.change()
  }

  drain(): void {
    this.#draining = true
    this.#progress.change()
  }

  async endHttps(): Promise<void> {
    if (!this.#options.https) return
    this.#endsHttps = true
    this.#progress.change()
    const isApplied = await this.#progress.untilDone(this.#limits.answerMs).then(
      () => true,
      () => false,
    )
    if (isApplied) await sleep(systemClock, httpsEndMs, this.#stopping.signal)
  }

  problem(): string | undefined {
    return this.#problem
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    for (let failures = 0; !signal.aborted; ) {
      const connection = await connectRuntime(this.#options.paths.runtime, this.#limits)
      this.#progress.reset()
      if ('kind' in connection) this.#fail(`HAProxy cannot be reached (${connection.reason})`)
      else if (await this.#serve(connection)) failures = 0
      if (signal.aborted) return
      failures++
      const { logger } = this.#options
      logger.warn({ failures, problem: this.#problem }, 'HAProxy does not have the rules; retrying')
      await sleep(systemClock, backoffMs(failures, retryDelays), signal)
    }
  }

  /** Serves one connection and closes it. Returns whether HAProxy answered as expected until the connection ended. */
  async #serve(connection: RuntimeConnection): Promise<boolean> {
    try {
      await this.#follow(connection)
      this.#fail(`HAProxy has disconnected (${this.#stopping.signal.aborted ? 'stopping' : await connection.over})`)
      return true
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error))
      return false
    } finally {
      connection.close()
    }
  }

  #fail(reason: string): void {
    this.#problem = reason
    this.#progress.fail(new Error(`the rules are not applied: ${reason}`))
  }

  /** Pushes every change until the connection ends. @throws RefusedError */
  async #follow(connection: RuntimeConnection): Promise<void> {
    const { paths, resolvable, onPushed } = this.#options
    const progress = this.#progress
    const maps = new PushedMaps(connection, paths, onPushed)
    const certificates = new PushedCertificates(connection, paths)
    let isOver = false
    void connection.over.then(() => {
      isOver = true
      progress.wake()
    })
    while (!isOver && !this.#stopping.signal.aborted) {
      const changed = progress.nextWake()
      if (progress.isDone || !resolvable()) await changed
      else {
        const target = progress.wanted
        await this.#pushTo(maps)
        this.#reportRecovery()
        progress.reach(target)
        await this.#pushCertificates(certificates)
      }
    }
  }

  async #pushTo(maps: PushedMaps): Promise<void> {
    const until = this.#deadlineSeconds
    // With a deadline of 0, HAProxy refuses every client, so this deadline is set before the push. Any other deadline
    // is set after the push, so that HAProxy never admits clients with incomplete maps.
    if (until === 0) await maps.setDeadline(0)
    if (this.#table === undefined) await maps.check()
    else {
      const http = this.#options.https ? this.#httpEndpoints.endpoints(this.#hosts) : undefined
      await maps.push(this.#endpoints.endpoints(this.#table), http)
      if (until !== undefined) await maps.setDeadline(until)
      if (this.#draining) await maps.setDraining()
      if (this.#endsHttps) await maps.endHttps()
    }
  }

  async #pushCertificates(pushed: PushedCertificates): Promise<void> {
    if (!this.#options.https || this.#certificates === undefined) return
    const certificates = this.#certificates
    const problems = await pushed.push(certificates)
    for (const problem of problems)
      this.#options.logger.error({ problem }, 'HAProxy refused a certificate, and keeps the previous one, if any')
    const all = [...certificates.values()].map(({ cert }) => cert)
    // `refused` never equals the Secret's digest, so the operator does not treat a refused certificate as served.
    this.#servedCertificates = problems.length === 0 ? certificatesDigest(all) : 'refused'
  }

  #reportRecovery(): void {
    if (this.#problem === undefined) return
    this.#options.logger.info({ routes: this.#table?.size }, 'HAProxy has all rules')
    this.#problem = undefined
    this.#options.onRecovered()
  }
}
