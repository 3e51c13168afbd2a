/**
 * The driver process. It has its services on one socket and, if it runs beside kubelet, a second socket for the
 * registration with kubelet. Every call is validated, logged if it fails, and answered with the status that the
 * specification requires.
 */
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  type handleUnaryCall,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import type { Logger } from 'pino'
import { z } from 'zod'
import { createController } from './controller.ts'
import { acquireLock } from './lock.ts'
import { createNode } from './node.ts'
import { openPool } from './pool.ts'
import { schemas } from './requests.ts'
import { createSerial } from './serial.ts'

export const driverName = 'csi.espalier.dev'

type DriverOptions = {
  /** Path of the socket for kubelet and the sidecars. */
  socket: string
  /** kubelet's directory for plugins. If omitted, the driver does not register. */
  registration?: string | undefined
  /** The path of the socket as kubelet sees it, if that path is different. */
  kubeletSocket?: string | undefined
  node: string
  /** A directory on a file system with reflinks. */
  pool: string
  overcommit: number
  version: string
  logger: Logger
  /** Aborts the wait for another driver that uses the pool. */
  signal?: AbortSignal | undefined
  now?: () => number
}
export type Driver = { stop(): Promise<void> }

const loading = { keepCase: true, longs: Number, enums: String, defaults: false, oneofs: true }
const serviceClient = z.custom<{ service: ServiceDefinition }>(
  value => typeof value === 'function' && 'service' in value,
)

/** The services of one of Espalier's proto files, by name. */
function services(file: string, ...path: string[]): (name: string) => ServiceDefinition {
  const loaded = loadPackageDefinition(loadSync(join(import.meta.dirname, 'protocol', file), loading))
  let level: unknown = loaded
  for (const part of path) level = z.record(z.string(), z.unknown()).parse(level)[part]
  const found = z.record(z.string(), z.unknown()).parse(level)
  return name => serviceClient.parse(found[name]).service
}

type Method = { shape: z.ZodType; call: (request: never) => Promise<object> }
const method = <S extends z.ZodType>(shape: S, call: (request: z.output<S>) => Promise<object>): Method => ({
  shape,
  call,
})

function implementation(methods: Record<string, Method>, logger: Logger): UntypedServiceImplementation {
  const handlers = Object.entries(methods).map(([name, { shape, call }]) => {
    const handle: handleUnaryCall<unknown, object> = (request, reply) => {
      const parsed = shape.safeParse(request.request)
      if (!parsed.success) {
        const [issue] = parsed.error.issues
        const details = `${issue?.path.join('.')}: ${issue?.message}`
        return reply({ code: status.INVALID_ARGUMENT, details })
      }
      // The data have the shape that `method` requires: its schema has parsed them.
      call(parsed.data as never).then(
        answer => reply(null, answer),
        (error: unknown) => {
          const message = error instanceof Error ? error.message : String(error)
          const code =
            error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : status.INTERNAL
          logger[code === status.INTERNAL ? 'error' : 'info'](
            { call: name, code: status[code], err: message },
            'refused a call',
          )
          reply({ code, details: message })
        },
      )
    }
    return [name, handle]
  })
  return Object.fromEntries(handlers)
}

async function listen(server: Server, socket: string): Promise<void> {
  await mkdir(dirname(socket), { recursive: true })
  await rm(socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), error => (error ? reject(error) : resolve()))
  })
}

const shutdown = (server: Server): Promise<void> =>
  new Promise(resolve => {
    server.tryShutdown(() => resolve())
  })

/**
 * Starts the driver. Resolves when it serves. While another driver uses the pool, it waits and touches neither the pool
 * nor a socket.
 */
export async function startDriver(options: DriverOptions): Promise<Driver> {
  await mkdir(options.pool, { recursive: true, mode: 0o700 })
  const release = await acquireLock({
    path: join(options.pool, 'lock'),
    signal: options.signal,
    logger: options.logger,
  })
  try {
    const driver = await serve(options)
    return {
      async stop() {
        await driver.stop()
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

async function serve(options: DriverOptions): Promise<Driver> {
  const { socket, registration, kubeletSocket = socket, node, version, logger, now = Date.now } = options
  const pool = await openPool({ directory: options.pool, overcommit: options.overcommit, now })
  const serial = createSerial()
  const controller = createController({ pool, node, serial })
  const onNode = createNode({ pool, node, serial })
  const csi = services('csi.proto', 'csi', 'v1')

  const server = new Server()
  const identity = {
    GetPluginInfo: method(schemas.none, async () => ({ name: driverName, vendor_version: version })),
    GetPluginCapabilities: method(schemas.none, async () => ({
      capabilities: [
        { service: { type: 'CONTROLLER_SERVICE' } },
        { service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } },
        { volume_expansion: { type: 'ONLINE' } },
      ],
    })),
    Probe: method(schemas.none, async () => ({ ready: { value: true } })),
  }
  server.addService(csi('Identity'), implementation(identity, logger))
  server.addService(
    csi('Controller'),
    implementation(
      {
        ControllerGetCapabilities: method(schemas.none, controller.ControllerGetCapabilities),
        CreateVolume: method(schemas.createVolume, controller.CreateVolume),
        DeleteVolume: method(schemas.volume, controller.DeleteVolume),
        ValidateVolumeCapabilities: method(schemas.validate, controller.ValidateVolumeCapabilities),
        ListVolumes: method(schemas.list, controller.ListVolumes),
        GetCapacity: method(schemas.capacity, controller.GetCapacity),
        CreateSnapshot: method(schemas.createSnapshot, controller.CreateSnapshot),
        DeleteSnapshot: method(schemas.snapshot, controller.DeleteSnapshot),
        ListSnapshots: method(schemas.listSnapshots, controller.ListSnapshots),
        ControllerExpandVolume: method(schemas.controllerExpand, controller.ControllerExpandVolume),
      },
      logger,
    ),
  )
  server.addService(
    csi('Node'),
    implementation(
      {
        NodeGetCapabilities: method(schemas.none, onNode.NodeGetCapabilities),
        NodeGetInfo: method(schemas.none, onNode.NodeGetInfo),
        NodeStageVolume: method(schemas.stage, onNode.NodeStageVolume),
        NodeUnstageVolume: method(schemas.unstage, onNode.NodeUnstageVolume),
        NodePublishVolume: method(schemas.publish, onNode.NodePublishVolume),
        NodeUnpublishVolume: method(schemas.unpublish, onNode.NodeUnpublishVolume),
        NodeGetVolumeStats: method(schemas.stats, onNode.NodeGetVolumeStats),
        NodeExpandVolume: method(schemas.nodeExpand, onNode.NodeExpandVolume),
      },
      logger,
    ),
  )
  await listen(server, socket)
  if (registration === undefined) return { stop: () => shutdown(server) }

  const register = new Server()
  const methods = {
    GetInfo: method(schemas.none, async () => ({
      type: 'CSIPlugin',
      name: driverName,
      endpoint: kubeletSocket,
      supported_versions: ['1.0.0'],
    })),
    NotifyRegistrationStatus: method(
      z.object({ plugin_registered: z.boolean().default(false), error: z.string().default('') }),
      async ({ plugin_registered, error }) => {
        if (plugin_registered) logger.info('kubelet has registered the driver')
        else logger.error({ error }, 'kubelet refused the driver')
        return {}
      },
    ),
  }
  register.addService(
    services('registration.proto', 'pluginregistration')('Registration'),
    implementation(methods, logger),
  )
  const registrationSocket = join(registration, `${driverName}-reg.sock`)
  await listen(register, registrationSocket)
  return {
    async stop() {
      // Closes the registration first, so that kubelet notices that its socket is closed.
      await shutdown(register)
      await rm(registrationSocket, { force: true })
      await shutdown(server)
    },
  }
}
