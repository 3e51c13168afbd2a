/**
 * Archives a Postgres server in the same pod: finished segments, the current segment while Postgres writes it, and base
 * backups. It reads the data directory, writes markers, and receives WAL by streaming replication. It retries and
 * reports failures; a failure never ends the agent.
 */
import { join } from 'node:path'
import { nameIn, readCertificates } from '../agent/certificates.ts'
import { requireOpened } from '../copy.ts'
import { ReplicationConnection } from '../replication/connection.ts'
import { secureSocket } from '../replication/secure-socket.ts'
import { type Backups, createBackups } from './backup.ts'
import { createArchiveClient } from './client.ts'
import type { ArchiveStatus } from './contract.ts'
import { createDigests } from './digests.ts'
import { receiveTail } from './receiver.ts'
import { archiveSegments } from './segments.ts'
import { postgresEnded } from './shutdown.ts'
import { ArchiveState } from './state.ts'

export type ArchiveOptions = {
  /** `https://host:port` */
  url: string
  /** The directory with archive.crt, archive.key and ca.crt. */
  tls: string
  /** The directory in which `archive_command` checks for markers. */
  markers: string
}

type Instance = {
  host: string
  postgresPort: number
  volume: string
  /** The directory with Postgres's certificate. */
  tls: string
  now: () => number
  log: (line: string) => void
}

export type Archiving = {
  status(): ArchiveStatus
  backups: Backups
  stop(): Promise<void>
}

/** The replication role of Espalier databases. Postgres maps the archive certificate to this role. */
const replicationRole = 'espalier_replication'

export function startArchiving({ url, tls, markers }: ArchiveOptions, instance: Instance): Archiving {
  const { host, postgresPort: port, volume, now, log } = instance
  const data = join(volume, 'pgdata')
  /** Closes the connections to Postgres, which does not shut down before it has sent them all WAL. */
  const disconnecting = new AbortController()
  const ending = new AbortController()
  const { signal } = ending
  const client = createArchiveClient(url, tls, now)
  const state = new ArchiveState(now, log)
  const connect = async (applicationName: string) => {
    requireOpened(volume)
    const { cert: serverCert, ca } = readCertificates(instance.tls)
    const { cert, key } = client.certificates()
    const socket = await secureSocket({ host, port, serverName: nameIn(serverCert), cert, key, ca })
    // Ignored here: the reader of the connection's messages fails with this error.
    socket.on('error', () => {})
    return ReplicationConnection.open(socket, replicationRole, applicationName)
  }
  const backups = createBackups({ client, connect, now, log })
  const digests = createDigests(data)
  const segments = archiveSegments({ client, state, data, markers, digests, log, signal })
  const tail = receiveTail({ client, state, connect, digests, signal: disconnecting.signal, now })
  return {
    status: () => state.status(),
    backups,
    async stop() {
      disconnecting.abort(new Error('the agent is stopping'))
      await backups.stop()
      await tail
      await postgresEnded(data)
      ending.abort(new Error('the agent is stopping'))
      await segments
      client.close()
    },
  }
}
