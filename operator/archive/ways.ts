/** The operator's access to the archiving agents and to the archive. An interface, so that tests can replace it. */

import { type CertifiedKey, issueClientCertificate, needsRenewal } from '../pki/index.ts'
import type { Trust } from '../pki/trust.ts'
import { operatorCommonName } from '../postgres/configuration.ts'
import { type ArchiveStatus, archiveStatus, type BackupJob, backupJob, deletedPage } from './contract.ts'
import { type Answer, type Peer, requestJson } from './request.ts'

/** The address of a member's agent, and the data to authenticate it. */
export type AgentTarget = { host: string; port: number; serverName: string; ca: string }

/** The name prefix of a database's objects in the archive. */
export type ArchiveLocation = { id: string; incarnation: number }

type DeletedPage = { deleted: number; hasMore: boolean }

export type ArchiveWays = {
  /** @throws if the agent does not answer */
  status(target: AgentTarget, signal: AbortSignal): Promise<ArchiveStatus>
  /** `busy`: another job runs. Does not start a job twice. @throws if the agent does not answer */
  begin(target: AgentTarget, backupId: string, signal: AbortSignal): Promise<'begun' | 'busy'>
  /** Undefined if the agent has no such job. @throws if the agent does not answer */
  job(target: AgentTarget, backupId: string, signal: AbortSignal): Promise<BackupJob | undefined>
  /** Cancels the job, if there is one. @throws if the agent does not answer */
  end(target: AgentTarget, backupId: string, signal: AbortSignal): Promise<void>
  /**
   * Deletes a complete or partial base backup. Succeeds if there is none. @throws if the archive does not confirm the
   * deletion
   */
  deleteBackup(location: ArchiveLocation, backupId: string, signal: AbortSignal): Promise<void>
  /**
   * Deletes some WAL files before this one. @returns whether more remain. @throws if the archive does not confirm the
   * deletion
   */
  deleteWal(location: ArchiveLocation, before: string, signal: AbortSignal): Promise<DeletedPage>
  /**
   * Deletes some objects of one volume. @returns whether more remain. @throws if the archive does not confirm the
   * deletion
   */
  deleteAll(location: ArchiveLocation, signal: AbortSignal): Promise<DeletedPage>
}

const archiveIdentity = { commonName: 'espalier-archive-operator', uris: ['urn:espalier:archive:operator'] }

/** The error for a response, with the response's message if it has one. */
function refused(what: string, { status, body }: Answer): Error {
  const reply = Object(body)
  const message = [reply.message, reply.error, Object(reply.error).message].find(text => typeof text === 'string')
  return new Error(`${what} answered ${status}${message === undefined ? '' : `: ${String(message).slice(0, 300)}`}`)
}

/** `url`: the archive's URL. */
export function createArchiveWays(authority: Trust, url: string, now: () => number): ArchiveWays {
  const certificates = new Map<string, CertifiedKey>()
  /** Each certificate is valid for one day, and renewed after two thirds of that time. */
  const certificateOf = (request: { commonName: string; uris?: string[] }): CertifiedKey => {
    const known = certificates.get(request.commonName)
    if (known !== undefined && !needsRenewal(known.cert, now)) return known
    const issued = issueClientCertificate(authority, request, now)
    certificates.set(request.commonName, issued)
    return issued
  }
  const agentOf = ({ host, port, serverName, ca }: AgentTarget): Peer => ({
    ...{ host, port, servername: serverName, ca },
    ...certificateOf({ commonName: operatorCommonName }),
  })
  const archive = (): Peer => {
    const { hostname, port } = new URL(url)
    return { host: hostname, port: Number(port || 443), ca: authority.accepted, ...certificateOf(archiveIdentity) }
  }
  async function deletePage(path: string, signal: AbortSignal): Promise<DeletedPage> {
    const answer = await requestJson(archive(), { method: 'DELETE', path }, signal)
    if (answer.status !== 200) throw refused('the archive', answer)
    return deletedPage.parse(answer.body)
  }
  const backupPath = (backupId: string) => `/backups/${backupId}`
  return {
    async status(target, signal) {
      const answer = await requestJson(agentOf(target), { method: 'GET', path: '/archive' }, signal)
      if (answer.status !== 200) throw refused('the agent', answer)
      return archiveStatus.parse(answer.body)
    },
    async begin(target, backupId, signal) {
      const answer = await requestJson(agentOf(target), { method: 'PUT', path: backupPath(backupId) }, signal)
      if (answer.status === 409) return 'busy'
      if (answer.status === 200 || answer.status === 202) return 'begun'
      throw refused('the agent', answer)
    },
    async job(target, backupId, signal) {
      const answer = await requestJson(agentOf(target), { method: 'GET', path: backupPath(backupId) }, signal)
      if (answer.status === 404) return undefined
      if (answer.status !== 200) throw refused('the agent', answer)
      return backupJob.parse(answer.body)
    },
    async end(target, backupId, signal) {
      const answer = await requestJson(agentOf(target), { method: 'DELETE', path: backupPath(backupId) }, signal)
      if (answer.status !== 204 && answer.status !== 404) throw refused('the agent', answer)
    },
    async deleteBackup({ id, incarnation }, backupId, signal) {
      const path = `/v1/${id}/${incarnation}/backups/${backupId}`
      const answer = await requestJson(archive(), { method: 'DELETE', path }, signal)
      if (answer.status !== 204) throw refused('the archive', answer)
    },
    deleteWal: ({ id, incarnation }, before, signal) =>
      deletePage(`/v1/${id}/${incarnation}/wal?before=${before}`, signal),
    deleteAll: ({ id, incarnation }, signal) => deletePage(`/v1/${id}/${incarnation}`, signal),
  }
}
