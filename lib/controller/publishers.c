#include "controller/publishers.h"

#include "plan/numbers.h"

bool hb_publishers_mixed(hb_publishers *p, uint32_t counter, double now)
{
    if (p->published && counter != p->current) {
        bool known = false;
        for (int i = 0; i < p->nformer && i < HB_FORMER; i++)
            known = known || (p->former[i].counter == counter && now - p->former[i].left <= HB_RETURNS_WITHIN);
        if (known) {
            p->returns = now - p->returned <= HB_RETURNS_WITHIN ? p->returns + 1 : 1;
            p->returned = now;
        }
        p->former[p->nformer % HB_FORMER].counter = p->current;
        p->former[p->nformer % HB_FORMER].left = now;
        p->nformer = p->nformer + 1 < 2 * HB_FORMER ? p->nformer + 1 : HB_FORMER;
    }
    p->published = true;
    p->current = counter;
    p->returns = now - p->returned <= HB_RETURNS_WITHIN ? p->returns : 0;
    return p->returns >= HB_RETURNS;
}
