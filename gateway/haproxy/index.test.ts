/** The gateway as in a pod: a real HAProxy with its agent. Espalier's embedded store replaces the Kubernetes API. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  acknowledged,
  gatewayLeaseSeconds,
  portRefusedBy,
  type Route,
  unreachableAnnotation,
} from '../../routes/route.ts'
import type { AgentOptions } from '../testing/agent-process.ts'
import { testCertificate } from '../testing/certificate.ts'
import { errorFields, startupMessage, tlsRequest } from '../testing/client.ts'
import { openTestCluster, type TestCluster } from '../testing/cluster.ts'
import { haproxyVersion, openHaproxy, type TestHaproxy } from '../testing/haproxy.ts'
import { anyLogins } from '../testing/logins.ts'
import { proxyHeader } from '../testing/proxy-header.ts'
import { listen, listenInSilence, ownLoopback, received, until } from '../testing/sockets.ts'
import { refusalsAtOnce } from './configuration.ts'
import { drain } from './drain.ts'
import { type HaproxyGateway, type HaproxyGatewayOptions, startHaproxyGateway } from './index.ts'

const certificate = testCertificate('gateway.test')
const balancer = '127.99.0.1'
const client = '127.0.0.5'
const everyone = ['0.0.0.0/0']

if (haproxyVersion === undefined) test.skip('gateway with HAProxy: needs haproxy on this machine', () => {})
else
  describe(`gateway with HAProxy ${haproxyVersion}`, () => {
    let cluster: TestCluster
    let haproxy: TestHaproxy
    let backend: { host: string; port: number; sockets: Socket[] }
    let clock: { offset: number }
    const now = () => Date.now() + clock.offset

    beforeEach(async () => {
      clock = { offset: 0 }
      cluster = await openTestCluster()
      haproxy = await openHaproxy({
        proxyProtocolFrom: [`${balancer}/32`],
        maxConnectionsPerRoute: 150,
        logins: anyLogins,
      })
      const host = ownLoopback()
      const sockets: Socket[] = []
      // The target sends "ok", then echoes.
      const { server, port } = await listen(host, socket => {
        sockets.push(socket)
        socket.on('error', () => {}).write('ok')
        socket.pipe(socket)
      })
      backend = { host, port, sockets }
      return () => {
        for (const socket of sockets) socket.destroy()
        server.close()
      }
    })
    afterEach(async () => {
      await haproxy.close()
      await cluster.close()
    })

    async function start(options: Partial<HaproxyGatewayOptions> = {}): Promise<HaproxyGateway> {
      const gateway = await startHaproxyGateway({
        cluster: cluster.faulty,
        identity: 'one',
        paths: haproxy.paths,
        ports: haproxy.ports,
        certificate,
        denialLimits: { perAddress: { perSecond: 10_000, burst: 10_000 }, total: { perSecond: 10_000, burst: 10_000 } },
        heartbeatMs: 50,
        now,
        logger: pino({ level: process.env.ESPALIER_TEST_LOG || 'silent' }),
        ...options,
      })
      onTestFinished(() => gateway.stop({ settleMs: 0 }))
      return gateway
    }

    const routeOn = (port: number, rules: string[], service = 'db-1'): Route => ({
      databaseId: 'id',
      label: 'shop-12345678',
      port,
      target: { namespace: 'espalier-t-1', service, port: backend.port },
      rules,
    })
    const isAcknowledged = async (version: string) => acknowledged(version, await cluster.leases(), now()).done
    const open = async (route: Route): Promise<void> => {
      const version = await cluster.putRoute(route)
      await until('the route is acknowledged', () => isAcknowledged(version))
    }
    const openWithService = async (port: number, rules: string[]): Promise<void> => {
      const route = routeOn(port, rules)
      await cluster.putService(route.target, backend.host)
      await open(route)
      await until('HAProxy knows the target', async () => {
        if (rules.length === 0) return true
        return (await haproxy.runCommand(`show map ${haproxy.paths.allow}`)).includes(`${backend.host}:${backend.port}`)
      })
    }

    type Dial = { from?: string; header?: Buffer; hello?: Buffer | undefined }
    const dial = async (port: number, { from = client }: Dial = {}): Promise<Socket> => {
      const socket = connect({ host: haproxy.host, port, localAddress: from, allowHalfOpen: true })
      onTestFinished(() => void socket.destroy())
      socket.on('error', () => {})
      await new Promise(resolve => socket.once('connect', resolve).once('close', resolve))
      return socket
    }
    /**
     * Connects to a port and sends a StartupMessage. Returns `ok` if the client is admitted, otherwise the SQLSTATE, or
     * nothing if the connection was closed.
     */
    async function tryLogin(
      port: number,
      how: Dial = {},
    ): Promise<{ answer: string; message: string; socket: Socket }> {
      const socket = await dial(port, how)
      socket.write(Buffer.concat([how.header ?? Buffer.alloc(0), how.hello ?? startupMessage()]))
      const bytes = await new Promise<Buffer>(resolve => {
        if (socket.destroyed) resolve(Buffer.alloc(0))
        socket.once('data', resolve)
        for (const event of ['end', 'close']) socket.once(event, () => resolve(Buffer.alloc(0)))
      })
      const fields = errorFields(bytes)
      return { answer: fields?.C ?? String(bytes.subarray(0, 2)), message: fields?.M ?? '', socket }
    }
    const answerOf = async (port: number, how: Dial = {}) => {
      const { answer, socket } = await tryLogin(port, how)
      socket.destroy()
      return answer
    }
    const echoes = async (socket: Socket): Promise<boolean> => {
      const word = `ping ${Math.random()}`
      let echoed = ''
      const listener = (bytes: Buffer) => {
        echoed += bytes
      }
      socket.on('data', listener).write(word)
      await until('the target returns the bytes', () => echoed.includes(word))
      socket.off('data', listener)
      return true
    }

    const first = 20_000
    /** The connections that HAProxy has passed to the agent: the highest number at once, and the total. */
    const handedOver = async () => {
      const stat = await haproxy.runCommand('show stat')
      const fields =
        stat
          .split('\n')
          .find(line => line.startsWith('refusals,BACKEND,'))
          ?.split(',') ?? []
      return { most: Number(fields[5]), total: Number(fields[7]) }
    }

    test('admits clients that a rule admits, refuses others with an error that contains their address, and closes ports without a route', async () => {
      await start()
      await openWithService(first, ['127.0.0.0/24'])
      expect(await answerOf(first)).toBe('ok')
      expect(await answerOf(first, { from: '127.0.0.255' })).toBe('ok')
      expect(await tryLogin(first, { from: '127.0.1.7' })).toMatchObject({
        answer: '28000',
        message: 'no rule of the allowlist of shop-12345678 admits 127.0.1.7',
      })
      expect(await answerOf(first + 1)).toBe('')
    })

    test('each port has its own rules', async () => {
      await start()
      await openWithService(first, ['127.0.0.5/32'])
      await openWithService(first + 1, ['127.0.0.6/32', '127.0.0.8/31'])
      const answers = async (from: string) => [await answerOf(first, { from }), await answerOf(first + 1, { from })]
      expect(await answers('127.0.0.5')).toEqual(['ok', '28000'])
      expect(await answers('127.0.0.6')).toEqual(['28000', 'ok'])
      expect(await answers('127.0.0.9')).toEqual(['28000', 'ok'])
      expect(await answers('127.0.0.10')).toEqual(['28000', '28000'])
    })

    test('a refused client that requests TLS, or starts with it, gets the error inside TLS', async () => {
      await start()
      await openWithService(first, [])
      const errorOf = async (socket: Socket) => {
        const secured = connectTls({
          socket,
          ca: certificate.ca,
          servername: 'gateway.test',
          ALPNProtocols: ['postgresql'],
        })
        await once(secured, 'secureConnect')
        secured.write(startupMessage())
        return errorFields(await received(secured))
      }
      const socket = await dial(first)
      socket.write(tlsRequest)
      expect(String((await once(socket, 'data'))[0])).toBe('S')
      expect(await errorOf(socket)).toMatchObject({ S: 'FATAL', C: '28000' })
      expect(await errorOf(await dial(first))).toMatchObject({ S: 'FATAL', C: '28000' })
    })

    test("a client's address is read from a PROXY header only if a load balancer has sent the header", async () => {
      await start()
      await openWithService(first, ['10.1.2.3/32', `${balancer}/32`])
      const header = (source: string) => proxyHeader({ source, port: 9 })
      expect(await answerOf(first, { from: balancer, header: header('10.1.2.3') })).toBe('ok')
      expect(await tryLogin(first, { from: balancer, header: header('10.1.2.4') })).toMatchObject({
        answer: '28000',
        message: expect.stringContaining('admits 10.1.2.4'),
      })
      // A rule admits the balancer's own address, but HAProxy refuses a balancer that sends no header.
      expect(await answerOf(first, { from: balancer })).toBe('')
      // From another address, a header is not part of Postgres's protocol, and admits no client.
      expect(await answerOf(first, { from: '127.0.0.7', header: header('10.1.2.3') })).toBe('')
      // An IPv6 client is refused, even if its address contains an IPv4 address that a rule admits.
      expect(
        await answerOf(first, { from: balancer, header: proxyHeader({ source: '::ffff:10.1.2.3', port: 9 }) }),
      ).toBe('28000')
    })

    test('100 open sessions survive 20 changes of their rules; after each change the previous rules admit no client', async () => {
      await start()
      await openWithService(first, everyone)
      const sessions = await Promise.all(Array.from({ length: 100 }, async () => (await tryLogin(first)).socket))
      for (let round = 0; round < 20; round++) {
        const isOpen = round % 2 === 1
        await open(routeOn(first, isOpen ? ['10.0.0.0/8', '127.0.0.0/8'] : [`10.0.${round}.0/24`]))
        // Each client has its own address, because a refused client that connects too often is rejected early.
        const answers = await Promise.all(
          Array.from({ length: 20 }, (_, index) => answerOf(first, { from: `127.0.${round}.${index + 1}` })),
        )
        expect(new Set(answers)).toEqual(new Set([isOpen ? 'ok' : '28000']))
      }
      expect(new Set(await Promise.all(sessions.map(echoes)))).toEqual(new Set([true]))
    })

    test('a slow client is checked by the rules at the time of its first bytes', async () => {
      await start()
      await openWithService(first, everyone)
      const [silent, lucky] = [await dial(first), await dial(first)]
      await until(
        'HAProxy has two sessions of the client',
        async () => (await haproxy.runCommand('show sess')).split(`src=${client}`).length === 3,
      )
      await open(routeOn(first, []))
      silent.write(startupMessage())
      expect(errorFields(await received(silent))).toMatchObject({ C: '28000' })
      await open(routeOn(first, everyone))
      lucky.write(startupMessage())
      expect(String((await once(lucky, 'data'))[0])).toMatch(/^ok/)
      expect(backend.sockets).toHaveLength(1)
    })

    test('a change writes only the changed entries of its own route', async () => {
      await start()
      await openWithService(first, ['10.0.0.0/8', '10.1.0.0/16'])
      await openWithService(first + 1, ['10.0.0.0/8'])
      const entries = async () => {
        const lines = (await haproxy.runCommand(`show map ${haproxy.paths.allow}`)).split('\n')
        return new Map(lines.map(line => [line.split(' ')[1] ?? '', line.split(' ')[0] ?? '']))
      }
      const before = await entries()
      await open(routeOn(first, ['10.0.0.0/8', '10.2.0.0/16']))
      const after = await entries()
      expect([...after.keys()].sort()).toEqual(
        ['fd00::4e20:10.0.0.0/104', 'fd00::4e20:10.2.0.0/112', 'fd00::4e21:10.0.0.0/104'].sort(),
      )
      for (const key of ['fd00::4e20:10.0.0.0/104', 'fd00::4e21:10.0.0.0/104'])
        expect(after.get(key)).toBe(before.get(key))
    })

    test('a deleted route closes its port, and no entry of it remains in the maps', async () => {
      await start()
      await openWithService(first, everyone)
      const { socket } = await tryLogin(first)
      await cluster.deleteRoute(first)
      await until('the port is closed', async () => (await answerOf(first)) === '')
      expect(await haproxy.runCommand(`show map ${haproxy.paths.allow}`)).toBe('')
      expect(await haproxy.runCommand(`show map ${haproxy.paths.ports}`)).toBe('')
      expect(await echoes(socket)).toBe(true)
    })

    describe('an unreachable database', () => {
      test('is reported as 57P03 if no pod of its Service responds', async () => {
        await start()
        await openWithService(first, everyone)
        await open({ ...routeOn(first, everyone), target: { ...routeOn(first, []).target, port: 1 } })
        expect(await tryLogin(first)).toMatchObject({
          answer: '57P03',
          message: 'the database is not available now',
        })
      })

      test('is reported as 57P03 within 8 s if its machine does not respond, and then on the Lease; idle sessions continue', async () => {
        await start()
        await openWithService(first, everyone)
        const { socket } = await tryLogin(first)
        const silent = await listenInSilence(backend.host)
        onTestFinished(silent.close)
        const { target, ...route } = routeOn(first + 1, everyone)
        await open({ ...route, target: { ...target, port: silent.port } })
        const began = performance.now()
        expect(await tryLogin(first + 1)).toMatchObject({ answer: '57P03' })
        expect(performance.now() - began).toBeLessThan(8_000)
        // The value that the operator reads.
        const leaseContent = async () =>
          (await cluster.leases()).map(({ metadata }) => metadata.annotations?.[unreachableAnnotation])
        await until('the Lease lists the port as unreachable', async () =>
          (await leaseContent()).includes(String(first + 1)),
        )
        expect(await echoes(socket)).toBe(true)
      })

      test('is reported as 57P03 until its Service exists', async () => {
        await start()
        await open(routeOn(first, everyone))
        expect(await answerOf(first)).toBe('57P03')
        await cluster.putService(routeOn(first, []).target, backend.host)
        await until('the client is admitted', async () => (await answerOf(first)) === 'ok')
      })

      test('is reported as 57P03 until its Service is recreated with a reachable address', async () => {
        await start()
        const elsewhere = ownLoopback()
        const { target } = routeOn(first, everyone)
        await cluster.putService(target, elsewhere)
        await open(routeOn(first, everyone))
        expect(await answerOf(first)).toBe('57P03')
        await cluster.operator.delete('Service', { namespace: target.namespace, name: target.service })
        await cluster.putService(target, backend.host)
        await until('the client is admitted', async () => (await answerOf(first)) === 'ok')
      })
    })

    test("above a route's limit, refused clients get the reason", async () => {
      await start()
      await openWithService(first, everyone)
      const answers = await Promise.all(Array.from({ length: 160 }, async () => (await tryLogin(first)).answer))
      const count = (answer: string) => answers.filter(each => each === answer).length
      expect([count('ok'), count('53300')]).toEqual([150, 10])
    })

    test('a routed port outside the range of HAProxy is reported', async () => {
      await start()
      await open(routeOn(haproxy.ports.last + 1, everyone))
      expect(portRefusedBy(haproxy.ports.last + 1, await cluster.leases(), now())).toEqual(['gateway-one'])
    })

    describe('while HAProxy', () => {
      test('is down, no route is acknowledged; after its restart, HAProxy refuses clients until it has all rules', async () => {
        const gateway = await start()
        await openWithService(first, everyone)
        await haproxy.kill('SIGKILL')
        await until('the agent reports a problem', () => gateway.problem() !== undefined)
        const version = await cluster.putRoute(routeOn(first, [`${client}/32`]))
        await cluster.putRoute(routeOn(first + 1, everyone))
        expect(await isAcknowledged(version)).toBe(false)
        // HAProxy starts with empty maps. The agent then pushes all entries.
        await haproxy.start()
        await until('the route is acknowledged', () => isAcknowledged(version))
        expect(gateway.problem()).toBe(undefined)
        expect(await answerOf(first)).toBe('ok')
        expect(await answerOf(first, { from: '127.0.1.7' })).toBe('28000')
      })

      test('has had no agent since its start, it admits no client', async () => {
        await start().then(async gateway => {
          await openWithService(first, everyone)
          await gateway.stop({ settleMs: 0 })
        })
        await haproxy.kill('SIGKILL')
        await haproxy.start()
        expect(await answerOf(first)).toBe('')
      })

      test('hangs, no route is acknowledged; afterwards HAProxy gets all rules', async () => {
        const gateway = await start({ runtimeLimits: { answerMs: 200, answerBytes: 1024 * 1024 } })
        await openWithService(first, everyone)
        await haproxy.kill('SIGSTOP')
        const version = await cluster.putRoute(routeOn(first, []))
        await until('the agent reports a problem', () => gateway.problem() !== undefined)
        expect(await isAcknowledged(version)).toBe(false)
        await haproxy.kill('SIGCONT')
        await until('the route is acknowledged', () => isAcknowledged(version))
        expect(await answerOf(first)).toBe('28000')
      })
    })

    describe('the agent dies', () => {
      const agentPath = fileURLToPath(new URL('../testing/agent-process.ts', import.meta.url))
      const startAgent = async (offset: number) => {
        const options: AgentOptions = {
          paths: haproxy.paths,
          ports: haproxy.ports,
          offset,
          serviceAddress: backend.host,
        }
        const child = fork(agentPath, [JSON.stringify(options)])
        onTestFinished(() => void child.kill('SIGKILL'))
        await once(child, 'message')
        return {
          put: async (route: Route) => {
            child.send(route)
            await once(child, 'message')
          },
          kill: async () => {
            child.kill('SIGKILL')
            await once(child, 'exit')
          },
        }
      }

      test('by kill -9: HAProxy admits clients until its deadline; sessions continue; after a restart of the agent, HAProxy admits clients again', async () => {
        // The agent's clock is 87 s slow, so HAProxy's deadline is about 3 s after each renewal of the Lease.
        const agent = await startAgent(-(gatewayLeaseSeconds - 3) * 1000)
        await agent.put(routeOn(first, everyone))
        await until('the client is admitted', async () => (await answerOf(first)) === 'ok')
        const { socket } = await tryLogin(first)
        await agent.kill()
        const killedAt = Date.now()
        expect(await answerOf(first)).toBe('ok')
        await until('HAProxy closes new connections without a response', async () => (await answerOf(first)) === '')
        expect(Date.now() - killedAt).toBeGreaterThan(1_500)
        expect(Date.now() - killedAt).toBeLessThan(4_000)
        expect(await echoes(socket)).toBe(true)

        const next = await startAgent(0)
        await next.put(routeOn(first, everyone))
        await until('the client is admitted again', async () => (await answerOf(first)) === 'ok')
        expect(await echoes(socket)).toBe(true)
      })

      test('and restarts before the deadline: no client is refused', async () => {
        const agent = await startAgent(0)
        await agent.put(routeOn(first, everyone))
        await until('the client is admitted', async () => (await answerOf(first)) === 'ok')
        await agent.kill()
        const answers: string[] = []
        let isBack = false
        const knocking = (async () => {
          while (!isBack) answers.push(await answerOf(first))
        })()
        const version = await cluster.putRoute(routeOn(first, everyone))
        await cluster.putService(routeOn(first, everyone).target, backend.host)
        cluster.faults.services = true
        await start()
        await until('HAProxy serves clients while the agent cannot read Services', () => answers.length > 3)
        cluster.faults.services = false
        await until('the route is acknowledged', () => isAcknowledged(version))
        isBack = true
        await knocking
        expect(new Set(answers)).toEqual(new Set(['ok']))
      })
    })

    test('without the cluster, HAProxy admits clients for 90 s, then refuses them until the cluster returns', async () => {
      // The agent's clock is 87 s slow, so HAProxy's deadline is 3 s away.
      clock.offset = -(gatewayLeaseSeconds - 3) * 1000
      const gateway = await start()
      await openWithService(first, everyone)
      const { socket } = await tryLogin(first)
      Object.assign(cluster.faults, { routes: true, leases: true })
      cluster.breakWatches()
      expect(await answerOf(first)).toBe('ok')
      await until('the client is refused', async () => (await answerOf(first)) !== 'ok')
      expect(await tryLogin(first)).toMatchObject({
        answer: '57P03',
        message: expect.stringContaining('control plane'),
      })
      expect(await echoes(socket)).toBe(true)
      // With the correct clock, the agent detects that its Lease has expired.
      clock.offset = 0
      await until(
        'the gateway reports that the rules may be outdated',
        () => gateway.problem() === 'the rules may be outdated',
      )
      Object.assign(cluster.faults, { routes: false, leases: false })
      await until('the client is admitted again', async () => (await answerOf(first)) === 'ok')
      expect(gateway.problem()).toBe(undefined)
    })

    test('a stopping gateway is unready at once, then refuses clients and deletes its Lease; HAProxy stops after the last session', async () => {
      const gateway = await start()
      await openWithService(first, everyone)
      const { socket } = await tryLogin(first)
      let drained: string | undefined
      const draining = drain(haproxy.paths).then(how => {
        drained = how
      })
      const stopped = gateway.stop({ settleMs: 300 })
      expect(gateway.problem()).toBe('stopping')
      expect(await answerOf(first)).toBe('ok')
      await stopped
      expect(await cluster.leases()).toEqual([])
      expect(await answerOf(first)).toBe('')
      expect(await echoes(socket)).toBe(true)
      expect(drained).toBe(undefined)
      socket.destroy()
      await draining
      expect(drained).toBe('drained')
      await until('HAProxy has ended', async () => !haproxy.isRunning())
    })

    describe('hostile clients', () => {
      test('that flood a port without permission are rejected early, and other clients are served', async () => {
        await start()
        await openWithService(first, [`${client}/32`])
        const flood = await Promise.all(Array.from({ length: 300 }, () => dial(first, { from: '127.0.1.7' })))
        const answers = await Promise.all(Array.from({ length: 20 }, () => answerOf(first)))
        expect(new Set(answers)).toEqual(new Set(['ok']))
        await until('all connections of the flood are closed', () =>
          flood.every(socket => socket.readableEnded || socket.destroyed),
        )
        expect((await handedOver()).total).toBeLessThan(150)
      })

      test('that are refused and stay silent use at most about 256 connections to the agent, and only for a short time', async () => {
        await start({ denialLimits: { conversationMs: 300 } })
        await openWithService(first, [`${client}/32`])
        const silent = await Promise.all(
          Array.from({ length: 600 }, (_, index) => dial(first, { from: `127.1.${index >> 3}.9` })),
        )
        for (const socket of silent) socket.resume()
        expect((await handedOver()).most).toBeLessThan(refusalsAtOnce + 10)
        expect(await answerOf(first)).toBe('ok')
        await until('all silent connections are closed', () =>
          silent.every(socket => socket.readableEnded || socket.destroyed),
        )
      })
    })
  })
