/**
 * The static site: every document of docs/, with README.md as its first page. `make site` builds it into site/.vitepress/dist.
 * The build fails on a link between documents that leads nowhere.
 */
import { defineConfig } from 'vitepress'
import { linkSources } from './sources.ts'

const page = (text: string, link: string) => ({ text, link })

/** The address of the repository, where links to source files lead; omitted: such links are plain text. */
const repository = process.env.ESPALIER_REPOSITORY

export default defineConfig({
  title: 'Espalier',
  description: 'Managed Postgres with branches, on Kubernetes',
  lang: 'en',
  // `make site` copies docs/ there: pages outside this folder do not find its packages.
  srcDir: '.pages',
  rewrites: { 'README.md': 'index.md', 'decisions/README.md': 'decisions/index.md' },
  cleanUrls: true,
  markdown: { config: markdown => linkSources(markdown, repository) },
  themeConfig: {
    search: { provider: 'local' },
    ...(repository === undefined ? {} : { socialLinks: [{ icon: 'github', link: repository }] }),
    sidebar: [
      {
        text: 'Tasks',
        items: [
          page('A tour', '/tour'),
          page('Connect', '/connect'),
          page('Backups and restores', '/backups'),
          page('Branches', '/branches'),
          page('The archive', '/archive'),
          page('Import and leaving', '/import'),
          page('On one machine', '/one-machine'),
          page('On Kubernetes', '/kubernetes'),
          page('EKS, GKE, AKS, k3s', '/clouds'),
          page('Upgrade', '/upgrade'),
          page('When something is wrong', '/troubleshooting'),
        ],
      },
      { text: 'Services', items: [page('rest', '/rest'), page('mcp', '/mcp'), page('rag', '/rag')] },
      {
        text: 'Reference',
        items: [
          page('API', '/api'),
          page('API errors', '/reference/api-errors'),
          page('Custom resources', '/reference/resources'),
          page('Chart values', '/reference/chart-values'),
          page('Metrics and alerts', '/reference/metrics'),
          page('Gateway', '/gateway'),
          page('Data safety', '/data-safety'),
        ],
      },
      {
        text: 'Contributors',
        items: [
          page('Architecture', '/architecture'),
          page('Decisions', '/decisions/'),
          page('Testing the operator', '/testing-the-operator'),
          page('Dependencies', '/dependencies'),
        ],
      },
    ],
  },
})
