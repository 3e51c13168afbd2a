/**
 * What a spec asks for that this version does not do. The API refuses it; what was asked for by kubectl is not passed over
 * in silence. A part that comes to be done goes from here.
 */
import type { ManagedDatabaseSpec } from '../../../crds/index.ts'
import { no } from '../../objects/conditions.ts'
import type { Findings } from './conditions.ts'

export function notAvailableFindings({ services, backup }: ManagedDatabaseSpec): Findings {
  const ofBackups = [
    ...(backup.schedule === undefined ? [] : ['spec.backup.schedule']),
    ...(backup.retentionDays === undefined ? [] : ['spec.backup.retentionDays']),
    ...(backup.durable ? ['spec.backup.durable'] : []),
  ]
  return {
    ...(services.length > 0
      ? {
          ServicesReady: no(
            'NotAvailable',
            'services are not run by this version; nothing of spec.services is in force',
          ),
        }
      : {}),
    ...(ofBackups.length > 0
      ? {
          BackupsReady: no('NotAvailable', `not done by this version; nothing comes of ${ofBackups.join(', ')}`),
        }
      : {}),
  }
}
