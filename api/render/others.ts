/** Renders backups and sizes as the API returns them. */
import type { Kinds } from '../../cluster/index.ts'
import { type BackupVerification, verificationOf } from '../../crds/index.ts'
import type { BackupShape } from '../backups/schema.ts'
import { idOf } from '../caches.ts'
import type { SizeShapeOut } from '../catalogue/schema.ts'
import { createdTime } from './created-at.ts'
import { apiTime } from './time.ts'

/** Removes fields that are undefined. */
function present<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  // Without undefined values, the object matches the type exactly.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>
  }
}

export const backupStatus = ({ metadata, status }: Kinds['Backup']): BackupShape['status'] =>
  metadata.deletionTimestamp === undefined ? (status?.phase ?? 'pending') : 'deleting'

export function renderBackup(backup: Kinds['Backup']): BackupShape {
  const { metadata, spec, status } = backup
  return {
    id: idOf(backup) ?? '',
    database_id: spec.databaseId,
    name: metadata.name,
    created_at: createdTime(backup),
    ...(status?.finishedAt === undefined ? {} : { finished_at: apiTime(status.finishedAt) }),
    status: backupStatus(backup),
    kind: spec.kind,
    metadata: present({
      size_bytes: status?.sizeBytes,
      start_lsn: status?.startLsn,
      end_lsn: status?.endLsn,
      timeline: status?.timeline,
      system_identifier: status?.systemIdentifier,
      cut_at: status?.cutAt === undefined ? undefined : apiTime(status.cutAt),
      verification: verificationOf(backup),
      verification_result: status?.verificationResult && renderVerification(status.verificationResult),
      error: status?.error,
    }),
    purpose: spec.purpose,
  }
}

/** Omits the request's annotation, which only the operator uses. */
function renderVerification({ asked: _, endedAt, ...result }: BackupVerification): Record<string, unknown> {
  return { ended_at: apiTime(endedAt), ...result }
}

/**
 * Adds `pricing` only if the client requested it and the size has a price. Otherwise, the field is omitted and never
 * zero.
 */
export function renderSize({ metadata, spec }: Kinds['Size'], withPricing: boolean): SizeShapeOut {
  const { shape, pricing } = spec
  return {
    id: spec.id,
    name: spec.name,
    version: spec.version,
    display_name: spec.displayName,
    qos_class: shape.qosClass,
    cpu_request: shape.cpuRequest,
    cpu_limit: shape.cpuLimit,
    memory_request: shape.memoryRequest,
    memory_limit: shape.memoryLimit,
    storage_size: shape.storageSize,
    temporary_data_size: shape.temporaryDataSize,
    shared_memory_size: shape.sharedMemorySize,
    connections: shape.connections,
    postgres_settings: shape.postgresSettings,
    status: spec.status,
    created_at: apiTime(metadata.creationTimestamp),
    deprecated_at: spec.deprecatedAt === undefined ? null : apiTime(spec.deprecatedAt),
    retired_at: spec.retiredAt === undefined ? null : apiTime(spec.retiredAt),
    ...(withPricing && pricing !== undefined
      ? {
          pricing: {
            price_amount: pricing.priceAmount,
            currency: pricing.currency,
            billing_interval: pricing.billingInterval,
          },
        }
      : {}),
  }
}
