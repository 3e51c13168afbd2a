/** The archive of the installation, enabled while tests run, on an S3 server on this machine. */
import { randomBytes } from 'node:crypto'
import { stringify } from 'yaml'
import { gofakes3, startS3Server } from '../../archive/testing/s3-servers.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import type { KindProvider } from '../providers/kind.ts'
import { upgradeChart } from './chart.ts'

const keys = 'archive-keys'
const login = 'archive-login'

type Cluster = Pick<KindProvider, 'kubectl' | 'clientAddress'>

export async function startArchive({ kubectl, clientAddress }: Cluster): Promise<{ stop(): Promise<void> }> {
  const createSecret = async (name: string, stringData: Record<string, string>) => {
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: systemNamespace }, stringData }
    await kubectl(['apply', '--server-side', '--filename', '-'], stringify(secret))
  }
  const store = await startS3Server(gofakes3, clientAddress)
  const stop = async () => {
    try {
      await upgradeChart({ 'archive.enabled': 'false' })
      await kubectl(['delete', 'secret', keys, login, '-n', systemNamespace, '--ignore-not-found'])
    } finally {
      await store.stop()
    }
  }
  try {
    const { bucket, prefix, endpoint, region, credentials } = store.settings
    await createSecret(keys, { 'archive.keys': `${randomBytes(32).toString('base64')}\n` })
    const { accessKeyId, secretAccessKey } = credentials ?? {}
    await createSecret(login, { AWS_ACCESS_KEY_ID: accessKeyId ?? '', AWS_SECRET_ACCESS_KEY: secretAccessKey ?? '' })
    await upgradeChart({
      'archive.enabled': 'true',
      'archive.keySecret.name': keys,
      'archive.store.url': `s3://${bucket}/${prefix}`,
      'archive.store.endpoint': endpoint ?? '',
      'archive.store.region': region ?? '',
      'archive.store.pathStyle': 'true',
      'archive.store.credentialsSecret': login,
      'archive.resources.requests.cpu': '10m',
    })
  } catch (error) {
    await stop()
    throw error
  }
  return { stop }
}

/** Whether a database archives its writes. @throws with the database's condition if it does not */
export async function isArchiving({ cluster }: Pick<KindProvider, 'cluster'>, id: string): Promise<true> {
  const { items } = await cluster.list('ManagedDatabase', { labels: { [labels.id]: id } })
  const condition = items[0]?.status?.conditions?.find(({ type }) => type === 'Archiving')
  if (condition?.reason !== 'Archiving') throw new Error(JSON.stringify(condition))
  return true
}
