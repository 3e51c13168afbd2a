/** The gateway's thread: runs the gateway, with a cluster, a log and Services' addresses provided by messages. */
import { parentPort, workerData } from 'node:worker_threads'
import { pino } from 'pino'
import { startGateway } from '../../gateway/index.ts'
import { createEndpointTable } from './endpoint-table.ts'
import type { FromThread, ThreadSettings, ToThread } from './protocol.ts'
import { createRemoteCluster } from './remote-cluster.ts'

const { identity, listenHost, certificate, https, level }: ThreadSettings = workerData
const post = (message: FromThread): void => parentPort?.postMessage(message)

/** Lines go to the main thread's logger, which adds time and process. */
const logger = pino(
  { level, base: null, timestamp: false, formatters: { level: label => ({ level: label }) } },
  {
    write: line => {
      const { level: name, msg: message, ...fields } = JSON.parse(line)
      post({ type: 'log', level: name, message, fields })
    },
  },
)

const remote = createRemoteCluster(post)
const endpoints = createEndpointTable()
const gateway = await startGateway({
  cluster: remote.cluster,
  ...{ identity, listenHost, certificate, logger },
  ...(https && { https }),
  resolve: endpoints.resolve,
})

function replace(certificate: () => void): void {
  try {
    certificate()
  } catch {
    // The text of an error about a key may quote the key.
    logger.warn("the gateway's certificate cannot be used; keeping the previous one")
  }
}

async function stop(drainMs: number): Promise<void> {
  await gateway.stop({ drainMs })
  post({ type: 'stopped' })
}

parentPort?.on('message', (message: ToThread) => {
  if (message.type === 'endpoints') endpoints.put(message.changes)
  else if (message.type === 'certificate') replace(() => gateway.setCertificate(message.certificate))
  else if (message.type === 'https-certificates') replace(() => gateway.setHttpsCertificates(message.certificates))
  else if (message.type === 'metrics')
    void gateway.registry.metrics().then(text => post({ type: 'metrics', id: message.id, text }))
  else if (message.type === 'stop') void stop(message.drainMs)
  else remote.receive(message)
})
post({ type: 'started' })
