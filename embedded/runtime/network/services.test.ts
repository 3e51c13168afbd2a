import { once } from 'node:events'
import { createConnection } from 'node:net'
import { expect, test } from 'vitest'
import { createEndpointTable } from '../../gateway/endpoint-table.ts'
import { namespace, openTestCluster, pod, ready, script, until, untilPod } from '../testing/runtime.ts'

test.each(['as the runtime resolves it', 'as the runtime reports it'])(
  '%s: a Service resolves to its ready pods (or to all running pods if configured), in turn, by name or number of the port',
  async how => {
    const { cluster, runtime } = await openTestCluster()
    const table = createEndpointTable()
    runtime.followEndpoints(table.put)
    const source = how === 'as the runtime resolves it' ? runtime : table
    const resolve = (port: number, service = 'web') => source.resolve({ namespace, service, port })
    const server = `
    const server = require('node:net').createServer(socket => socket.on('error', () => {}).end(process.env.HOSTNAME))
    setTimeout(() => server.listen(8000, process.env.POD_IP), Number(process.argv[1]))`
    const member = (name: string, delay: string) => {
      const container = script(server, {
        args: [delay],
        env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
        ports: [{ name: 'http', containerPort: 8000 }],
        readinessProbe: { tcpSocket: { port: 8000 } },
      })
      const described = pod(name, { containers: [container] })
      return { ...described, metadata: { ...described.metadata, labels: { app: 'web' } } }
    }
    const service = (name: string, selector: Record<string, string>, publishNotReadyAddresses = false) => ({
      apiVersion: 'v1' as const,
      kind: 'Service' as const,
      metadata: { name, namespace },
      spec: {
        selector,
        publishNotReadyAddresses,
        ports: [
          { port: 80, name: 'web', targetPort: 'http' },
          { port: 8000, name: 'plain' },
        ],
      },
    })
    await cluster.create('Service', service('web', { app: 'web' }))
    await cluster.create('Service', service('none', {}))
    await cluster.create('Pod', member('one', '0'))
    await cluster.create('Pod', member('two', '600000'))
    const one = await untilPod(cluster, 'one', ready)
    await until(() => resolve(80) !== undefined)
    expect(resolve(80)).toEqual({ host: one.status?.podIP, port: 8000 })
    expect(resolve(8000)).toEqual({ host: one.status?.podIP, port: 8000 })
    expect([resolve(81), resolve(80, 'none'), resolve(80, 'absent')]).toEqual([undefined, undefined, undefined])
    const address = resolve(80)
    const socket = createConnection(address ?? { port: 0 })
    const [data] = await once(socket, 'data')
    expect(String(data)).toBe('one')

    await cluster.create('Service', service('all', { app: 'web' }, true))
    const two = await cluster.get('Pod', { namespace, name: 'two' })
    const both = [one.status?.podIP, two?.status?.podIP].toSorted()
    await until(() => resolve(80, 'all') !== undefined)
    expect([resolve(80, 'all')?.host, resolve(80, 'all')?.host].toSorted()).toEqual(both)

    await cluster.create('Pod', member('three', '0'))
    await untilPod(cluster, 'three', ready)
    await until(() => new Set([resolve(80)?.host, resolve(80)?.host]).size === 2)
    await cluster.delete('Pod', { namespace, name: 'one' })
    await until(() => resolve(80)?.host !== one.status?.podIP && resolve(80)?.host !== one.status?.podIP)
    expect(resolve(80)).toBeDefined()
    await cluster.delete('Service', { namespace, name: 'web' })
    await until(() => resolve(80) === undefined)
  },
)
