/**
 * Keeps the record next to each volume up to date, also for databases that were created before records existed. No
 * database needs a restart for this.
 */
import type { Logger } from 'pino'
import type { Cluster, Kinds, ObjectKey } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { recordOf } from './record.ts'
import { writeRecord } from './write-record.ts'

type Described = Kinds['ManagedDatabase'] | Kinds['Branch']

type KeepOptions = {
  cluster: Cluster
  /** The directory of a claim's volume; undefined if it is not bound. */
  directoryOf(claim: ObjectKey): string | undefined
  logger: Logger
}

const everyMs = 1000

export async function keepRecords({ cluster, directoryOf, logger }: KeepOptions): Promise<{ stop(): Promise<void> }> {
  const tenants = createInformer(cluster, 'Tenant', { logger, transform: identity })
  const databases = createInformer(cluster, 'ManagedDatabase', { logger, transform: identity })
  const branches = createInformer(cluster, 'Branch', { logger, transform: identity })
  const informers = [tenants, databases, branches]
  /** Objects whose records must be written again, by uid. */
  const due = new Map<string, Described>()
  const notice = (object: Described): void => void due.set(object.metadata.uid ?? '', object)
  databases.onChange(({ object }) => notice(object))
  branches.onChange(({ object }) => notice(object))
  tenants.onChange(() => {
    for (const object of [...databases.list(), ...branches.list()]) notice(object)
  })
  await Promise.all(informers.map(informer => informer.start()))
  for (const object of [...databases.list(), ...branches.list()]) notice(object)

  async function write(object: Described): Promise<void> {
    const { namespace, name } = object.metadata
    const current = object.kind === 'Branch' ? branches.get({ namespace, name }) : databases.get({ namespace, name })
    if (current?.metadata.uid !== object.metadata.uid || current?.status?.volume === undefined) return
    const tenant = tenants.list().find(({ status }) => status?.namespace === namespace)
    const record = recordOf(current, tenant)
    // If its tenant changes, the object is enqueued again.
    if (record === undefined) return
    const directory = directoryOf({ namespace, name: current.status.volume.claim })
    if (directory === undefined) return notice(current)
    await writeRecord(directory, `${JSON.stringify(record)}\n`)
  }

  async function writeDue(): Promise<void> {
    const objects = [...due.values()]
    due.clear()
    for (const object of objects) {
      await write(object).catch((error: unknown) => {
        logger.debug(
          { err: error, name: object.metadata.name },
          'could not write the record of a volume; will try again',
        )
        notice(object)
      })
    }
  }

  let writing: Promise<void> | undefined
  const timer = setInterval(() => {
    writing ??= writeDue().finally(() => {
      writing = undefined
    })
  }, everyMs).unref()
  return {
    async stop() {
      clearInterval(timer)
      await writing
      await Promise.all(informers.map(informer => informer.stop()))
    },
  }
}

/** Objects of the embedded store are shared with the cache. */
const identity = <T>(object: T): T => object
